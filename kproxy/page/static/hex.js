/** Bytes in hexadecimal and ASCII; the bytes of a field are lit. */

import { Windowed } from "./windowed.js";
import { html, render } from "./lit-html.js";

const ROW = 20;

const digits = (byte) => byte.toString(16).padStart(2, "0");
const letter = (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·");

export class Hex {
  /** `pointed(offset, pinned)` is called with the byte under the pointer (null: none), pinned where it was clicked. */
  constructor(place, label, pointed) {
    this.pointed = pointed;
    this.bytes = new Uint8Array();
    this.lit = [0, 0];
    this.pinned = [0, 0];
    render(
      html`<div class="scroller" role="region" tabindex="0" aria-label=${label}
        @mouseover=${(event) => this.over(event)} @mouseleave=${() => this.pointed(null, false)} @click=${(event) => this.clicked(event)}>
        <div class="pane"></div><div class="space"></div></div>`,
      place,
    );
    this.scroller = place.querySelector(".scroller");
    this.list = Windowed.inside(this.scroller, ROW, (from, to, shift) => this.draw(from, to, shift));
  }

  get width() {
    return window.innerWidth < 760 ? 8 : 16;
  }

  show(bytes) {
    this.bytes = bytes;
    this.lit = [0, 0];
    this.pinned = [0, 0];
    this.list.setTotal(Math.ceil(bytes.length / this.width));
    this.list.scrollTo(0);
  }

  light(start, end, pinned) {
    if (pinned) this.pinned = [start, end];
    this.lit = [start, end];
    if (pinned && end > start) {
      // the first row of the field, and as much of it as fits
      this.list.reveal(Math.min(Math.floor((end - 1) / this.width), Math.floor(start / this.width) + Math.floor(this.list.capacity) - 1));
      this.list.reveal(Math.floor(start / this.width));
    }
    this.list.ask();
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
    if (offset !== null) this.pointed(offset, true);
  }

  draw(from, to, shift) {
    const rows = [];
    for (let row = from; row < to; row += 1) rows.push(this.line(row * this.width));
    render(html`<div class="shift">${rows}</div>`, this.list.pane);
    this.list.pane.firstElementChild.style.setProperty("--shift", `${-shift}px`);
  }

  line(start) {
    const part = [...this.bytes.subarray(start, start + this.width)];
    const mark = (at) => (within(this.pinned, at) ? "pinned" : within(this.lit, at) ? "lit" : "");
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
