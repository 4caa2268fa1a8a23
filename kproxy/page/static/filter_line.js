/** The input for a condition in CEL: it completes names, shows mistakes at their column, and says what the condition means. */

import { get, Refused } from "./api.js";
import { joined } from "./conditions.js";
import { counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 200; // without typing, before the server is asked
const KEPT = "kproxy filters"; // key of the browser's local storage: the filters used last
const MOST_USED = 20;
const LONGEST_USED = 1000; // characters: longer filters are not kept
const MOST_STATES = 200;

/** The filter of exchanges: its check says how many match. */
const FILTER = {
  label: "Filter: words, or a condition in CEL",
  placeholder: 'A word, as in orders, or a condition: apiName == "Fetch" && latencyMs > 500.0',
  complete: (text, cursor, signal) => get("complete", { text, cursor }, signal),
  check: (filter, signal) => get("exchanges", { filter, limit: 1 }, signal),
  used: { list: usedFilters, add: used },
  meaning: ({ total, texts = [] }) => html`<p class="said hidden">${counted(total, "exchange matches", "exchanges match")}</p>
    ${texts.length ? html`<p class="said note">Read as text, not as a condition: finds ${texts.map((text, at) => html`${at ? " and " : ""}<code><bdi>${visible(text)}</bdi></code>`)} in names, addresses and errors.</p>` : nothing}`,
};

export class FilterLine {
  /**
   * `applied(text)` is called for Enter, and after a click has written a condition. `kind` has the label and placeholder, `complete`
   * and `check(text, signal)`, which ask the server; `meaning` draws the result of `check`, which may throw Refused. `used` has the
   * filters used before.
   */
  constructor(place, applied, kind = FILTER) {
    this.place = place;
    this.applied = applied;
    this.kind = kind;
    this.verdict = null; // the result of the check, or an error {message, column, length}
    this.choices = [];
    this.chosen = -1;
    this.span = [0, 0]; // part of the text that a choice replaces
    this.timer = null;
    this.checking = null; // AbortController of the running check
    this.completing = null;
    this.applying = null; // the text to apply once the server has checked it
    this.offered = null; // cursor and text of the open completions
    this.undo = new Undo();
    this.draw();
  }

  get input() {
    return this.place.querySelector("input");
  }

  /** Show a filter that was applied elsewhere, without applying it again. */
  set(filter) {
    clearTimeout(this.timer); // what was typed before is neither checked nor completed
    if (this.input.value !== filter) this.input.value = filter;
    this.undo.put(filter);
    this.verdict = null;
    this.close();
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Write another filter, and apply it. */
  write(filter) {
    this.set(filter);
    return this.apply();
  }

  /** Add a condition with &&, and apply the filter. */
  add(condition) {
    const present = this.input.value.trim();
    if (present.split(" && ").includes(condition)) return undefined;
    return this.write(joined(present, condition));
  }

  /** Undo for Ctrl-Z, redo for Ctrl-Y and Ctrl-Shift-Z (Cmd likewise). Returns whether the key was one of these. */
  undone(event) {
    const key = event.key.toLowerCase();
    if (event.altKey || (key !== "z" && key !== "y")) return false;
    event.preventDefault();
    const text = this.undo.step(key === "z" && !event.shiftKey ? -1 : 1);
    if (text === null) return true;
    this.input.value = text;
    event.target === this.input ? this.typed() : this.apply();
    return true;
  }

  async apply() {
    clearTimeout(this.timer);
    this.close();
    const filter = this.input.value.trim();
    this.undo.put(this.input.value);
    this.applying = filter;
    const understood = await this.check(filter);
    if (this.applying === filter) this.applying = null;
    if (!understood) return;
    this.kind.used?.add(filter);
    this.applied(filter);
  }

  /** Let the server check the condition. Returns false for a mistake, or if another check has begun meanwhile. */
  async check(filter = this.input.value.trim()) {
    this.checking?.abort();
    const running = new AbortController();
    this.checking = running;
    if (filter === "") return this.showVerdict(null);
    try {
      const verdict = await this.kind.check(filter, running.signal);
      return !running.signal.aborted && this.showVerdict(verdict);
    } catch (error) {
      if (error.name === "AbortError" || running.signal.aborted) return false;
      return this.showVerdict(error instanceof Refused ? error : { message: String(error) });
    }
  }

  /** Show the result of a check, or nothing (null). Returns whether it is no mistake. */
  showVerdict(verdict) {
    this.verdict = verdict;
    this.draw();
    return !isError(verdict);
  }

  typed() {
    this.undo.put(this.input.value);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.complete();
      if (this.applying === null) this.check();
    }, PAUSE_MS);
  }

  async complete() {
    const text = this.input.value;
    const cursor = this.input.selectionStart ?? text.length;
    if (this.offered === `${cursor} ${text}`) return; // keep the choice that is selected
    this.completing?.abort();
    const running = new AbortController();
    this.completing = running;
    this.offered = `${cursor} ${text}`;
    try {
      const answer = await this.kind.complete(text, cursor, running.signal);
      if (running.signal.aborted || document.activeElement !== this.input || this.input.value !== text) return;
      this.offer(answer.choices.slice(0, 50), [answer.from, answer.to]);
    } catch {
      if (!running.signal.aborted) this.offer([]); // the check shows the mistake
    }
  }

  /** Offer the filters used before. */
  completeUsed() {
    this.completing?.abort();
    const present = this.input.value;
    const others = (this.kind.used?.list() ?? []).filter((one) => one !== present.trim());
    this.offer(others.map((text) => ({ text, meaning: "used before" })), [0, present.length]);
    if (others.length) this.move(1);
  }

  offer(choices, span = [0, 0]) {
    Object.assign(this, { choices, span, chosen: -1 });
    this.draw();
  }

  accept(at) {
    const [from, to] = this.span;
    const value = this.input.value;
    const text = this.choices[at].text;
    this.input.value = value.slice(0, from) + text + value.slice(to);
    this.input.setSelectionRange(from + text.length, from + text.length);
    this.close();
    this.input.focus();
    this.typed();
  }

  close() {
    this.completing?.abort();
    this.offered = null;
    this.offer([]);
  }

  /** Close the list, unless the input has the focus again. */
  left() {
    if (document.activeElement !== this.input) this.close();
  }

  pressed(event) {
    const open = this.choices.length > 0;
    if ((event.ctrlKey || event.metaKey) && this.undone(event)) return;
    if (event.key === "Enter") open && this.chosen >= 0 ? this.accept(this.chosen) : this.apply();
    else if (event.key === "Tab" && open && this.chosen >= 0) this.accept(this.chosen);
    else if (event.key === "Escape" && open) this.close();
    else if (event.key === "Escape") this.place.dispatchEvent(new CustomEvent("leave"));
    else if (event.key === " " && event.ctrlKey) this.complete();
    else if (event.key === "ArrowDown" && open) this.move(1);
    else if (event.key === "ArrowUp" && open) this.move(-1);
    else if (event.key === "ArrowDown") this.complete();
    else if (event.key === "ArrowUp") this.completeUsed();
    else return;
    event.preventDefault();
  }

  move(by) {
    this.chosen = (this.chosen + by + this.choices.length) % this.choices.length;
    this.draw();
    this.place.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  draw() {
    const wrong = isError(this.verdict);
    const open = this.choices.length > 0;
    render(
      html`<input
          type="text" role="combobox" spellcheck="false" autocomplete="off" autocapitalize="off"
          aria-label=${this.kind.label} aria-autocomplete="list" aria-controls="choices" aria-expanded=${String(open)}
          aria-activedescendant=${open && this.chosen >= 0 ? `choice-${this.chosen}` : ""} aria-invalid=${String(wrong)}
          aria-describedby="filter-said" placeholder=${this.kind.placeholder}
          @input=${() => this.typed()} @keydown=${(event) => this.pressed(event)}
          @blur=${() => setTimeout(() => this.left(), 150)} />
        <ul class="choices" id="choices" role="listbox" aria-label="What may stand here" ?hidden=${!open}>
          ${this.choices.map(
            (choice, at) => html`<li role="option" id="choice-${at}" aria-selected=${String(at === this.chosen)}
              @mousedown=${(event) => { event.preventDefault(); this.accept(at); }}>
              <code>${visible(choice.text)}</code><span>${visible(choice.meaning ?? "")}</span></li>`,
          )}
        </ul>
        <div id="filter-said" aria-live="polite">${wrong ? (open ? nothing : this.error()) : this.verdict === null ? nothing : this.kind.meaning(this.verdict)}</div>`,
      this.place,
    );
  }

  error() {
    const { message, column, length } = this.verdict;
    const text = this.input?.value ?? "";
    if (!column || column > text.length + 1) return html`<p class="said critical">${visible(message)}</p>`;
    const from = column - 1;
    const to = Math.max(from + (length || 1), from + 1);
    return html`<div class="said"><pre>${visible(text.slice(Math.max(from - 60, 0), from))}<mark>${visible(text.slice(from, to) || " ⌃")}</mark>${visible(text.slice(to, to + 60))}</pre>
      <span class="critical">Column ${column}: ${visible(message)}</span></div>`;
  }
}

const isError = (verdict) => verdict !== null && verdict.message !== undefined;

/** Undo and redo for the line: the browser's own is lost when a script writes into an input. */
class Undo {
  constructor(text = "") {
    this.states = [text];
    this.at = 0;
  }

  /** Note another text. The letters of one word are one step. */
  put(text) {
    const present = this.states[this.at];
    if (text === present) return;
    const goesOn = this.at > 0 && this.at === this.states.length - 1 && isLetterMore(present, text) && isLetterMore(this.states[this.at - 1], present);
    this.states.length = this.at + 1;
    if (goesOn) this.states.pop();
    this.states.push(text);
    if (this.states.length > MOST_STATES) this.states.shift();
    this.at = this.states.length - 1;
  }

  /** Return the text before (-1) or after (1); null if there is none. */
  step(by) {
    if (!(this.at + by in this.states)) return null;
    this.at += by;
    return this.states[this.at];
  }
}

const isLetterMore = (before, after) => after.startsWith(before) && /^\w+$/.test(after.slice(before.length));

function usedFilters() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function used(filter) {
  if (filter === "" || filter.length > LONGEST_USED) return;
  localStorage.setItem(KEPT, JSON.stringify([filter, ...usedFilters().filter((one) => one !== filter)].slice(0, MOST_USED)));
}
