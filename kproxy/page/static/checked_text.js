/** The text of a stopped message, in JSON or hex. The server checks it while the user types. */

import { Refused } from "./api.js";
import { isPhone } from "./columns.js";
import { count, counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 300; // without typing, before the server checks the text
const FORMS = [
  { id: "json", title: "JSON", label: "The message as Kafka's JSON" },
  { id: "hex", title: "Hex", label: "The message's bytes in hex" },
];
const MEND = "Correct the mistake first, or undo the edit.";

export class CheckedText {
  /** `typed()` is called after each change, `sent()` for Ctrl+Enter, `left()` for Esc, `said()` when the buttons have to be redrawn. */
  constructor(place, stop, stopped, doings) {
    this.stop = stop;
    this.stopped = stopped;
    this.doings = doings;
    this.form = "json";
    this.shown = textOf(stop); // the unedited text in each form
    this.verdict = null; // what the server says of {text}: {changed, size, json, hex} or {error}; null: the text is unedited
    this.checking = false;
    this.problem = null;
    this.isFrozen = false;
    render(
      html`<div class="bar"></div><div class="text" id="edited-text" role="tabpanel"></div><div class="said" id="edit-said" aria-live="polite"></div>`,
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
    this.form = draft?.form ?? "json";
    this.show(draft?.text ?? this.shown.json);
    if (draft) this.check();
    this.draw();
  }

  show(text) {
    this.text.show(text, FORMS.find((one) => one.id === this.form).label);
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

  /** Return the edited text as {json} or {hex}. */
  edited() {
    return { [this.form]: this.text.text };
  }

  get isEdited() {
    return this.text.text !== this.shown[this.form];
  }

  /** Whether the text describes another message than the received one. */
  get differs() {
    return this.verdict !== null && !this.verdict.error && bytesOf(this.verdict) !== bytesOf(this.stop);
  }

  typed() {
    this.problem = null;
    this.checking = true;
    this.asking?.abort();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
    this.keep();
    this.doings.typed();
    this.draw();
  }

  keep() {
    this.stopped.ends.keep(this.stop.id, this.isEdited ? { form: this.form, text: this.text.text } : null);
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

  async choose(form) {
    if (form === this.form) return;
    if (!(await this.check())) {
      this.problem = MEND;
      return this.draw();
    }
    const edited = this.verdict;
    this.form = form;
    this.show(edited ? textOf(edited)[form] : this.shown[form]);
    this.keep();
    this.draw();
    this.bar.querySelector(`#form-${form}`)?.focus();
    return edited && this.check();
  }

  turned(event) {
    if (!["ArrowRight", "ArrowLeft"].includes(event.key)) return;
    event.preventDefault();
    if (this.stop.hex !== null) this.choose(this.form === "json" ? "hex" : "json");
  }

  undo() {
    this.show(this.shown[this.form]);
    this.keep();
    this.check();
  }

  draw() {
    this.panel.setAttribute("aria-labelledby", `form-${this.form}`);
    render(
      html`<div class="tabs" role="tablist" aria-label="Form of the text" @keydown=${(event) => this.turned(event)}>
          ${FORMS.filter((one) => one.id === "json" || this.stop.hex !== null).map((one) => html`<button role="tab" id="form-${one.id}" aria-selected=${String(one.id === this.form)} aria-controls="edited-text" tabindex=${one.id === this.form ? 0 : -1} ?disabled=${this.isFrozen} @click=${() => this.choose(one.id)}>${one.title}</button>`)}</div>
        <button ?disabled=${this.isFrozen || this.verdict === null} @click=${() => this.undo()}>Undo the edit</button>`,
      this.bar,
    );
    render(html`${this.problem === null ? nothing : html`<p class="critical" role="alert">${this.problem}</p>`}${this.said()}`, this.saidPlace);
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
    if (!verdict.changed.length) return html`<p>Other bytes, the same fields. ${size}.</p>`;
    return html`<p>Changed: ${verdict.changed.map((path, at) => html`${at ? ", " : ""}<code><bdi>${visible(path)}</bdi></code>`)}. ${size}.</p>`;
  }

  wrong({ message, body }) {
    const { line = null, column = null, position = null } = body;
    const place = line === null ? nothing : html`<button class="plain" @click=${() => this.text.goToMark()} title="Go there">Line ${line}, column ${column}${position === null ? "" : `, byte ${position}`}</button> `;
    return html`<p class="critical">${place}<bdi>${visible(message)}</bdi></p>`;
  }
}

const textOf = ({ json, hex }) => ({ json, hex: hexLines(hex ?? "") });

/** Return what distinguishes two messages; one whose records are withheld has no hex. */
const bytesOf = ({ json, hex }) => hex ?? json;

const LINE = 18; // pixels, as in page.css
const LONGEST = 2_000; // characters of a line before a mark

/** Return hex digits as lines of bytes. */
function hexLines(digits) {
  const width = 2 * (isPhone() ? 8 : 16);
  const lines = digits.match(new RegExp(`.{1,${width}}`, "g")) ?? [];
  return lines.map((line) => line.match(/../g).join(" ")).join("\n");
}

/** An editor with line numbers, which marks where the text is wrong. */
class EditedText {
  /** `typed()` is called after each change; `sent()` for Ctrl+Enter, `left()` for Esc. */
  constructor(place, doings) {
    this.place = place;
    this.wrong = null; // {line, column}, from 1, in characters
    this.lines = 0;
    render(
      html`<div class="edited"><pre class="numbers" aria-hidden="true"></pre>
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
