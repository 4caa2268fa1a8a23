/** The line that a condition in CEL is written in: completion of names, the error at its column, what it would mean. */

import { get, Refused } from "./api.js";
import { joined } from "./conditions.js";
import { counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 200; // in typing, before the server is asked
const KEPT = "kproxy filters"; // the filters used last in this browser, in its local storage
const MOST_USED = 20;
const LONGEST_USED = 1000; // characters
const MOST_STATES = 200;

/** The filter of exchanges: `check` says how many match. */
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
   * `applied(text)` is called when a person means it: Enter, or a click that wrote it. `kind` says what the line is called and
   * whom it asks: `check(text, signal)` gives what `meaning` shows, or throws Refused; `used`: the filters used before, where
   * it has some.
   */
  constructor(place, applied, kind = FILTER) {
    this.place = place;
    this.applied = applied;
    this.kind = kind;
    this.said = null; // an error {message, column, length}, or what the check gave
    this.choices = [];
    this.chosen = -1;
    this.span = [0, 0]; // of the text that a choice replaces
    this.timer = null;
    this.checking = null; // AbortController of what was asked last, and of what completions were asked for
    this.completing = null;
    this.applying = null; // the text that Enter was pressed for, until the server has checked it
    this.offered = null; // cursor and text that completions were asked for, until they are closed
    this.undo = new Undo();
    this.draw();
  }

  get input() {
    return this.place.querySelector("input");
  }

  /** Show a filter that is applied already. */
  set(filter) {
    if (this.input.value !== filter) this.input.value = filter;
    this.undo.put(filter);
    this.said = null;
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

  /** Write another condition, joined to what is there with &&, and apply it. */
  add(condition) {
    const present = this.input.value.trim();
    if (present.split(" && ").includes(condition)) return undefined;
    return this.write(joined(present, condition));
  }

  /** A key with Ctrl or Cmd: what stood here before (Z) or after (Y, Shift-Z) is back; whether it was one of these. */
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
    this.completing?.abort();
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

  /** Ask the server whether it understands the condition, and what it means; false where it does not, or another was asked. */
  async check(filter = this.input.value.trim()) {
    this.checking?.abort();
    const asked = new AbortController();
    this.checking = asked;
    if (filter === "") return this.tell(null);
    try {
      const said = await this.kind.check(filter, asked.signal);
      return !asked.signal.aborted && this.tell(said);
    } catch (error) {
      if (error.name === "AbortError" || asked.signal.aborted) return false;
      return this.tell(error instanceof Refused ? error : { message: String(error) });
    }
  }

  /** Show what a filter means that is applied already, or null; see `kind.meaning`. */
  tell(said) {
    this.said = said;
    this.draw();
    return !isError(said);
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
    if (this.offered === `${cursor} ${text}`) return; // what is chosen among them stays chosen
    this.completing?.abort();
    const asked = new AbortController();
    this.completing = asked;
    this.offered = `${cursor} ${text}`;
    try {
      const answer = await this.kind.complete(text, cursor, asked.signal);
      if (asked.signal.aborted || document.activeElement !== this.input || this.input.value !== text) return;
      this.offer(answer.choices.slice(0, 50), [answer.from, answer.to]);
    } catch {
      if (!asked.signal.aborted) this.offer([]); // the check says what is wrong
    }
  }

  /** The filters of before, to choose one of them instead of what is there. */
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
    this.offered = null;
    this.offer([]);
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
    const wrong = isError(this.said);
    const open = this.choices.length > 0;
    render(
      html`<input
          type="text" role="combobox" spellcheck="false" autocomplete="off" autocapitalize="off"
          aria-label=${this.kind.label} aria-autocomplete="list" aria-controls="choices" aria-expanded=${String(open)}
          aria-activedescendant=${open && this.chosen >= 0 ? `choice-${this.chosen}` : ""} aria-invalid=${String(wrong)}
          aria-describedby="filter-said" placeholder=${this.kind.placeholder}
          @input=${() => this.typed()} @keydown=${(event) => this.pressed(event)}
          @blur=${() => setTimeout(() => this.close(), 150)} />
        <ul class="choices" id="choices" role="listbox" aria-label="What may stand here" ?hidden=${!open}>
          ${this.choices.map(
            (choice, at) => html`<li role="option" id="choice-${at}" aria-selected=${String(at === this.chosen)}
              @mousedown=${(event) => { event.preventDefault(); this.accept(at); }}>
              <code>${visible(choice.text)}</code><span>${visible(choice.meaning ?? "")}</span></li>`,
          )}
        </ul>
        <div id="filter-said" aria-live="polite">${wrong ? (open ? nothing : this.error()) : this.said === null ? nothing : this.kind.meaning(this.said)}</div>`,
      this.place,
    );
  }

  error() {
    const { message, column, length } = this.said;
    const text = this.input?.value ?? "";
    if (!column || column > text.length + 1) return html`<p class="said critical">${visible(message)}</p>`;
    const from = column - 1;
    const to = Math.max(from + (length || 1), from + 1);
    return html`<div class="said"><pre>${visible(text.slice(Math.max(from - 60, 0), from))}<mark>${visible(text.slice(from, to) || " ⌃")}</mark>${visible(text.slice(to, to + 60))}</pre>
      <span class="critical">Column ${column}: ${visible(message)}</span></div>`;
  }
}

const isError = (said) => said !== null && said.message !== undefined;

/** What stood in the line before, and after: a script that writes into an input makes the browser forget it. */
class Undo {
  constructor(text = "") {
    this.states = [text];
    this.at = 0;
  }

  /** The text is another now. Letters of one word are one step. */
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

  /** The text before (-1) or after (1); null where there is none. */
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
