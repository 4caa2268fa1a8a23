/**
 * Views of a running proxy: which of the last minutes they show, and when they ask again. They do so while exchanges come, but seldom
 * enough for the server and the reader; the key `p` pauses that.
 */

import { widthOf } from "./charts.js";
import { isPhone } from "./columns.js";
import { note } from "./route.js";
import { bytes, isoOf, timeOfDay, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const SPANS = [["1", "the last minute"], ["5", "the last 5 minutes"], ["15", "the last 15 minutes"], ["", "all that is here"]];
const LEAST_MS = 2000; // least time between two answers
const TIMES = 8; // wait this many times as long as the last answer took
const MOST_MS = 30_000;

export const KEYS = [
  ["l", "of a running proxy: the last minute, 5, 15, all"],
  ["p", "pause, go on"],
];

class LiveSpan {
  /**
   * `reload()` asks again and draws, and shows the old answer meanwhile; `redraw()` draws; `isHeld()` says whether the user is doing
   * something that a redraw would disturb.
   */
  constructor(source, { reload, redraw, isHeld = () => false }) {
    this.source = source;
    this.reload = reload;
    this.redraw = redraw;
    this.isHeld = isHeld;
    this.last = "";
    this.paused = false;
    this.asking = false;
    this.nextAt = 0;
    this.generation = null; // generation of the rows at the last request
    this.shownAt = null; // time of the newest exchange in the answers, ns as digits
    this.timer = 0;
  }

  enter({ last = "" }) {
    this.last = this.source.live && SPANS.some(([minutes]) => minutes === last) ? last : "";
  }

  /** The parameters for the server. */
  get parameters() {
    if (!this.last || !this.source.lastNs) return {};
    return { fromNs: String(BigInt(this.source.lastNs) - BigInt(this.last) * 60_000_000_000n) };
  }

  /** Begin and end of the shown time, in ns (BigInt). */
  get ends() {
    const first = BigInt(this.source.firstNs ?? 0);
    const last = BigInt(this.shownAt ?? this.source.lastNs ?? 1);
    const from = this.last ? last - BigInt(this.last) * 60_000_000_000n : first;
    return [from > first ? from : first, last];
  }

  /** Call `ask(parameters)`, and note the time of its answer. */
  async ask(ask) {
    const began = performance.now();
    const { lastNs, generation } = this.source;
    this.asking = true;
    try {
      return await ask(this.parameters);
    } finally {
      this.asking = false;
      this.shownAt = lastNs;
      this.generation = generation;
      this.nextAt = performance.now() + Math.min(Math.max(LEAST_MS, TIMES * (performance.now() - began)), MOST_MS);
    }
  }

  /** The server reports new exchanges; see main.js. */
  renewed(news) {
    this.source = { ...this.source, ...news };
    this.lookAgain();
  }

  lookAgain() {
    clearTimeout(this.timer);
    if (this.paused || this.asking || this.generation === this.source.generation) return;
    const wait = this.nextAt - performance.now();
    if (wait > 0 || document.hidden || this.isHeld()) this.timer = setTimeout(() => this.lookAgain(), Math.max(wait, LEAST_MS / 4));
    else this.reload();
  }

  choose(last) {
    this.last = last;
    note({ last: last || null });
    this.reload();
  }

  pause() {
    this.paused = !this.paused;
    this.redraw();
    this.lookAgain();
  }

  /** Draw the choice of minutes and the time shown; nothing unless the source is a running proxy. */
  bar() {
    if (!this.source.live) return nothing;
    const [from, to] = this.ends;
    return html`<div class="bar live-span">
      <label>Of <select aria-label="Of which time" @change=${(event) => this.choose(event.target.value)}>${SPANS.map(([minutes, title]) => html`<option value=${minutes} ?selected=${minutes === this.last}>${title}</option>`)}</select></label>
      <button aria-pressed=${String(this.paused)} @click=${() => this.pause()}>${this.paused ? "Go on" : "Pause"}</button>
      <span class="note" title=${this.source.mostBytes ? `The newest ${bytes(this.source.mostBytes)} of exchanges are kept.` : nothing}>${this.shownAt ? `${clock(from)} to ${clock(to)} UTC${this.paused ? ", paused" : ""}` : "no exchange yet"}</span></div>`;
  }

  key(event) {
    if (!this.source.live) return false;
    if (event.key === "l") this.choose(SPANS[(SPANS.findIndex(([minutes]) => minutes === this.last) + 1) % SPANS.length][0]);
    else if (event.key === "p") this.pause();
    else return false;
    return true;
  }

  close() {
    this.paused = true;
    clearTimeout(this.timer);
  }
}

const clock = (ns) => timeOfDay(isoOf(ns)).slice(0, 8);

/**
 * A view of answers about all exchanges, or about the last minutes of a running proxy. Subclasses define `take(parameters of the URL)`,
 * `ask(parameters for the server)` and `draw()`, which is called once the server has answered.
 */
export class AnswersView {
  constructor(place, source) {
    Object.assign(this, { place, source });
    this.span = new LiveSpan(source, { reload: () => this.load(), redraw: () => this.draw(), isHeld: () => this.isHeld() });
    if (source.live) this.renewed = (news) => this.span.renewed(news);
    this.observer = new ResizeObserver(() => this.isAnswered && this.draw());
    place.classList.add("page");
  }

  isHeld() {
    return false;
  }

  take() {}

  async enter(parameters) {
    render(html`<p class="muted" role="status">Working…</p>`, this.place);
    this.isAnswered = false;
    this.span.enter(parameters);
    this.take(parameters);
    this.observer.observe(this.place);
    await this.load();
  }

  async load() {
    try {
      await this.span.ask((parameters) => this.ask(parameters));
    } catch (error) {
      this.isAnswered = false;
      render(html`<p class="critical" role="alert">${visible(error.message)}</p>${this.waysOut()}`, this.place);
      return;
    }
    this.isAnswered = true;
    this.draw();
    this.span.lookAgain();
  }

  /** Draw buttons that remove parameters the server refused. */
  waysOut() {
    return nothing;
  }

  /** The width of charts, in pixels. */
  get width() {
    return widthOf({ clientWidth: this.place.clientWidth - (isPhone() ? 22 : 34) });
  }

  key(event) {
    return this.span.key(event);
  }

  close() {
    this.span.close();
    this.observer.disconnect();
    this.place.classList.remove("page");
  }
}
