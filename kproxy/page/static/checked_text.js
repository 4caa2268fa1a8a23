/** The text of a stopped message, in JSON. The server checks it while the user types. */

import { Refused } from "./api.js";
import { count, counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 300; // without typing, before the server checks the text
const LABEL = "The message as Kafka's JSON";

export class CheckedText {
  /** `typed()` is called after each change, `sent()` for Ctrl+Enter, `left()` for Esc, `said()` when the buttons have to be redrawn. */
  constructor(place, stop, stopped, doings) {
    this.stop = stop;
    this.stopped = stopped;
    this.doings = doings;
    this.verdict = null; // what the server says of {text}: {changed, size, json} or {error}; null: the text is unedited
    this.checking = false;
    this.isFrozen = false;
    render(
      html`<div class="bar"></div><div class="text" id="edited-text"></div><div class="said" id="edit-said" aria-live="polite"></div>`,
      place,
    );
    this.bar = place.querySelector(".bar");
    this.panel = place.querySelector(".text");
    this.saidPlace = place.querySelector(".said");
    this.text = new EditedText(this.panel, { typed: () => this.typed(), sent: doings.sent, left: doings.left });
    this.begin(stopped.ends.drafts.get(stop.id) ?? null);
  }

  /** Begin with the text as received, or with the user's earlier edit of it. */
  begin(draft) {
    this.text.show(draft ?? this.stop.json, LABEL);
    if (draft) this.check();
    this.draw();
  }

  focus() {
    this.text.focus({ preventScroll: true });
  }

  close() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.isClosed = true;
  }

  /** Make it read-only; it can still be copied. */
  freeze() {
    this.isFrozen = true;
    this.text.freeze();
    this.draw();
  }

  /** Return the edited text as the server takes it. */
  edited() {
    return { json: this.text.text };
  }

  get isEdited() {
    return this.text.text !== this.stop.json;
  }

  /** Whether the text describes another message than the received one. */
  get differs() {
    return this.verdict !== null && !this.verdict.error && this.verdict.json !== this.stop.json;
  }

  typed() {
    this.checking = true;
    this.asking?.abort();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
    this.keep();
    this.doings.typed();
    this.draw();
  }

  keep() {
    this.stopped.ends.keep(this.stop.id, this.isEdited ? this.text.text : null);
  }

  /** Let the server check the text. Returns whether it describes a message. */
  async check() {
    clearTimeout(this.timer);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const { text } = this.text;
    let verdict = null;
    try {
      if (this.isEdited) verdict = { text, ...(await this.stopped.check(this.stop.id, this.edited(), asking.signal)) };
    } catch (error) {
      if (error.name === "AbortError" || !(error instanceof Refused)) return false;
      verdict = { text, error };
    }
    if (this.asking !== asking || this.isClosed) return false;
    this.verdict = verdict;
    this.checking = false;
    const { line = null, column = null } = verdict?.error?.body ?? {};
    this.text.mark(line === null ? null : { line, column });
    this.draw();
    return !verdict?.error;
  }

  undo() {
    this.text.show(this.stop.json, LABEL);
    this.keep();
    this.check();
  }

  draw() {
    render(
      html`<button ?disabled=${this.isFrozen || this.verdict === null} @click=${() => this.undo()}>Undo the edit</button>`,
      this.bar,
    );
    render(this.said(), this.saidPlace);
    this.doings.said();
  }

  said() {
    const { verdict } = this;
    if (this.isFrozen) return nothing;
    if (this.checking) return html`<p class="muted">Checking…</p>`;
    if (verdict === null) return html`<p class="muted">As it came.</p>`;
    if (verdict.error) return this.wrong(verdict.error);
    const size = verdict.size === this.stop.size ? counted(verdict.size, "byte") : `${count(verdict.size)} bytes, as it came ${count(this.stop.size)}`;
    if (!this.differs) return html`<p class="muted">It would be sent as it came.</p>`;
    return html`<p>Changed: ${verdict.changed.map((path, at) => html`${at ? ", " : ""}<code><bdi>${visible(path)}</bdi></code>`)}. ${size}.</p>`;
  }

  wrong({ message, body }) {
    const { line = null, column = null } = body;
    const place = line === null ? nothing : html`<button class="plain" @click=${() => this.text.goToMark()} title="Go there">Line ${line}, column ${column}</button> `;
    return html`<p class="critical">${place}<bdi>${visible(message)}</bdi></p>`;
  }
}

const LINE = 18; // pixels, as in page.css
const LONGEST = 2_000; // characters of a line before a mark

/** An editor with line numbers, which marks where the text is wrong. */
class EditedText {
  /** `typed()` is called after each change; `sent()` for Ctrl+Enter, `left()` for Esc. */
  constructor(place, doings) {
    this.place = place;
    this.wrong = null; // {line, column}, from 1, in characters
    this.lines = 0;
    render(
      html`<div class="edit-area"><pre class="numbers" aria-hidden="true"></pre>
        <div class="paper"><div class="mark" aria-hidden="true"></div>
        <textarea spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off" dir="ltr" aria-describedby="edit-said"
          @input=${() => { this.number(); doings.typed(); }} @scroll=${() => this.follow()} @keydown=${(event) => pressed(event, doings)}></textarea></div></div>`,
      place,
    );
    this.area = place.querySelector("textarea");
    this.numbers = place.querySelector(".numbers");
    this.markPlace = place.querySelector(".mark");
  }

  get text() {
    return this.area.value;
  }

  /** Show another text. */
  show(text, label) {
    this.area.value = text;
    this.area.setAttribute("aria-label", label);
    this.area.setSelectionRange(0, 0);
    this.area.scrollTop = this.area.scrollLeft = 0;
    this.mark(null);
    this.number();
  }

  /** Make it read-only; it can still be copied. */
  freeze() {
    this.area.readOnly = true;
  }

  /** Mark the text from {line, column} to the end of the line; null removes the mark. */
  mark(wrong) {
    this.wrong = wrong;
    this.area.setAttribute("aria-invalid", String(wrong !== null));
    const line = wrong === null ? "" : (this.text.split("\n")[wrong.line - 1] ?? "");
    const from = wrong === null ? 0 : unitsOf(line, wrong.column - 1);
    render(wrong === null ? nothing : html`<span>${line.slice(0, from).slice(-LONGEST)}</span><mark>${line.slice(from, from + LONGEST) || " "}</mark>`, this.markPlace);
    this.follow();
  }

  /** Put the cursor where the mark is. */
  goToMark() {
    if (this.wrong === null) return;
    const lines = this.text.split("\n");
    const before = lines.slice(0, this.wrong.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const at = before + unitsOf(lines[this.wrong.line - 1] ?? "", this.wrong.column - 1);
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.area.scrollTop = Math.max((this.wrong.line - 4) * LINE, 0);
    this.follow();
  }

  number() {
    let lines = 1;
    for (let at = this.text.indexOf("\n"); at >= 0; at = this.text.indexOf("\n", at + 1)) lines += 1;
    if (lines !== this.lines) this.numbers.textContent = Array.from({ length: lines }, (_, at) => at + 1).join("\n");
    this.lines = lines;
    this.follow();
  }

  follow() {
    this.numbers.scrollTop = this.area.scrollTop;
    if (this.wrong === null) return;
    this.markPlace.style.setProperty("--top", `${(this.wrong.line - 1) * LINE - this.area.scrollTop}px`);
    this.markPlace.style.setProperty("--left", `${-this.area.scrollLeft}px`);
  }

  focus(options) {
    this.area.focus(options);
  }
}

function pressed(event, { sent, left }) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sent();
  else if (event.key === "Escape") left();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Return how many UTF-16 units the first characters of a line have. */
const unitsOf = (line, characters) => [...line].slice(0, characters).join("").length;
