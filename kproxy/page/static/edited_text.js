/** A message as text to edit: JSON or hex, line numbers beside it, and what is wrong marked where it stands. */

import { html, nothing, render } from "./lit-html.js";

const LINE = 18; // pixels, as in page.css
const LONGEST = 2_000; // characters of a line up to a mark

/** Hex digits as lines of bytes. */
export function hexLines(digits) {
  const width = 2 * (window.innerWidth < 760 ? 8 : 16);
  const lines = digits.match(new RegExp(`.{1,${width}}`, "g")) ?? [];
  return lines.map((line) => line.match(/../g).join(" ")).join("\n");
}

export class EditedText {
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

  /** Let it be read and copied, and edited no more. */
  freeze() {
    this.area.readOnly = true;
  }

  /** Mark what stands at a place up to the end of its line; null: nothing. */
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

/** UTF-16 units of that many characters. */
const unitsOf = (line, characters) => [...line].slice(0, characters).join("").length;
