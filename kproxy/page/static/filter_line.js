/** The line that a condition in CEL is written in: completion of names, the error at its column, what it would mean. */

import { get, Refused } from "./api.js";
import { counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 200; // in typing, before the server is asked

/** The filter of exchanges: `check` says how many match. */
const FILTER = {
  label: "Filter, a condition in CEL",
  placeholder: 'Filter, as in apiName == "Fetch" && latencyMs > 500.0',
  complete: (text, cursor) => get("complete", { text, cursor }),
  check: async (filter, signal) => (await get("exchanges", { filter, limit: 1 }, signal)).total,
  meaning: (total) => html`<p class="said hidden">${counted(total, "exchange matches", "exchanges match")}</p>`,
};

export class FilterLine {
  /**
   * `applied(text)` is called when a person means it: Enter, or a click that wrote it. `kind` says what the line is called and
   * whom it asks: `check(text, signal)` gives what `meaning` shows, or throws Refused.
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
    this.asking = null;
    this.draw();
  }

  get input() {
    return this.place.querySelector("input");
  }

  set(filter) {
    if (this.input.value !== filter) this.input.value = filter;
    this.said = null;
    this.close();
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Write another condition, joined to what is there with &&, and apply it. */
  add(condition) {
    const present = this.input.value.trim();
    if (present.split(" && ").includes(condition)) return;
    this.set(present === "" ? condition : `${/\|\||\?/.test(present) ? `(${present})` : present} && ${condition}`);
    this.apply();
  }

  async apply() {
    clearTimeout(this.timer);
    this.close();
    if (await this.check()) this.applied(this.input.value.trim());
  }

  /** Ask the server whether it understands the condition, and what it means. */
  async check() {
    this.asking?.abort();
    this.asking = new AbortController();
    const filter = this.input.value.trim();
    if (filter === "") return this.tell(null);
    try {
      return this.tell(await this.kind.check(filter, this.asking.signal));
    } catch (error) {
      if (error.name === "AbortError") return false;
      return this.tell(error instanceof Refused ? error : { message: String(error) });
    }
  }

  tell(said) {
    this.said = said;
    this.draw();
    return !isError(said);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.complete();
      this.check();
    }, PAUSE_MS);
  }

  async complete() {
    const text = this.input.value;
    const cursor = this.input.selectionStart ?? text.length;
    try {
      const answer = await this.kind.complete(text, cursor);
      if (document.activeElement !== this.input || this.input.value !== text) return;
      this.span = [answer.from, answer.to];
      this.choices = answer.choices.slice(0, 50);
      this.chosen = -1;
    } catch {
      this.choices = []; // the check says what is wrong
    }
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
    this.choices = [];
    this.chosen = -1;
    this.draw();
  }

  pressed(event) {
    const open = this.choices.length > 0;
    if (event.key === "Enter") open && this.chosen >= 0 ? this.accept(this.chosen) : this.apply();
    else if (event.key === "Tab" && open && this.chosen >= 0) this.accept(this.chosen);
    else if (event.key === "Escape" && open) this.close();
    else if (event.key === "Escape") this.place.dispatchEvent(new CustomEvent("leave"));
    else if (event.key === " " && event.ctrlKey) this.complete();
    else if (event.key === "ArrowDown" && open) this.move(1);
    else if (event.key === "ArrowUp" && open) this.move(-1);
    else if (event.key === "ArrowDown") this.complete();
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
