/** Bytes in hexadecimal and ASCII; the bytes of the chosen field are highlighted. */

import { isPhone } from "./columns.js";
import { Windowed } from "./windowed.js";
import { html, render } from "./lit-html.js";

const ROW = 20;

const digits = (byte) => byte.toString(16).padStart(2, "0");
const letter = (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·");

export class Hex {
  /** `pointed(offset, pinned)` is called with the byte under the pointer (null: none); `pinned` if it was clicked. */
  constructor(place, label, pointed) {
    this.pointed = pointed;
    this.bytes = new Uint8Array();
    this.lit = [0, 0];
    this.pinned = [0, 0];
    this.here = null; // the byte at which the keyboard is
    render(
      html`<div class="scroller" role="region" tabindex="0" aria-label=${label} @keydown=${(event) => this.pressed(event)}
        @mouseover=${(event) => this.over(event)} @mouseleave=${() => this.pointed(null, false)} @click=${(event) => this.clicked(event)}>
        <div class="pane"></div><div class="space"></div></div>`,
      place,
    );
    this.scroller = place.querySelector(".scroller");
    this.list = Windowed.inside(this.scroller, ROW, (from, to, shift) => this.draw(from, to, shift));
  }

  get width() {
    return isPhone() ? 8 : 16;
  }

  /** Show these bytes; a field chosen before they came stays highlighted. */
  show(bytes) {
    this.bytes = bytes;
    this.list.setTotal(Math.ceil(bytes.length / this.width));
    this.list.scrollTo(0);
    this.light(...this.pinned, true);
  }

  light(start, end, pinned) {
    if (pinned) this.pinned = [start, end];
    this.lit = [start, end];
    if (pinned && end > start) {
      // as much of the field as fits, from its first row
      this.list.reveal(Math.min(Math.floor((end - 1) / this.width), Math.floor(start / this.width) + Math.floor(this.list.capacity) - 1));
      this.list.reveal(Math.floor(start / this.width));
    }
    this.list.schedule();
  }

  offsetOf(event) {
    const at = event.target.dataset?.at;
    return at === undefined ? null : Number(at);
  }

  over(event) {
    const offset = this.offsetOf(event);
    if (offset !== null) this.pointed(offset, false);
  }

  clicked(event) {
    const offset = this.offsetOf(event);
    if (offset === null) return;
    this.here = offset;
    this.pointed(offset, true);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.bytes.length) return;
    const page = this.width * Math.max(Math.floor(this.list.capacity) - 1, 1);
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.width, ArrowUp: -this.width, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const by = moves[event.key];
    if (by !== undefined) this.goTo(this.here === null && Number.isFinite(by) ? this.pinned[0] : (this.here ?? 0) + by);
    else if (event.key === "Enter" && this.here !== null) this.pointed(this.here, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  goTo(offset) {
    this.here = Math.min(Math.max(offset, 0), this.bytes.length - 1);
    this.list.reveal(Math.floor(this.here / this.width));
    this.list.schedule();
    this.pointed(this.here, false);
  }

  draw(from, to, shift) {
    const rows = [];
    for (let row = from; row < to; row += 1) rows.push(this.line(row * this.width));
    render(html`<div class="shift">${rows}</div>`, this.list.pane);
    this.list.pane.firstElementChild.style.setProperty("--shift", `${-shift}px`);
  }

  line(start) {
    const part = [...this.bytes.subarray(start, start + this.width)];
    const mark = (at) => `${within(this.pinned, at) ? "pinned" : within(this.lit, at) ? "lit" : ""}${at === this.here ? " here" : ""}`;
    const gap = Array.from({ length: this.width - part.length }, () => html`<i class="gap">00</i>`);
    return html`<div class="row"><span class="at">${start.toString(16).padStart(6, "0")}</span
      ><span class="digits">${part.map((byte, at) => html`<i data-at=${start + at} class=${mark(start + at)}>${digits(byte)}</i>`)}${gap}</span
      ><span class="letters">${part.map((byte, at) => html`<i data-at=${start + at} class=${mark(start + at)}>${letter(byte)}</i>`)}</span></div>`;
  }

  close() {
    this.list.close();
  }
}

const within = ([start, end], at) => at >= start && at < end;
