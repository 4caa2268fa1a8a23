/**
 * Views of answers about all exchanges, or about the last minutes of a running proxy. They ask again while exchanges come, but seldom
 * enough for the server and the reader; the key `p` pauses that.
 */

import { widthOf } from "./charts.js";
import { isPhone } from "./columns.js";
import { note } from "./route.js";
import { bytes, isoOf, timeOfDay, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const SPANS = [["1", "the last minute"], ["5", "the last 5 minutes"], ["15", "the last 15 minutes"], ["", "all that is here"]];
const MINUTE_NS = 60_000_000_000n;
const LEAST_MS = 2000; // least time between two answers
const TIMES = 8; // wait this many times as long as the last answer took
const MOST_MS = 30_000;

export const KEYS = [
  ["l", "of a running proxy: the last minute, 5, 15, all"],
  ["p", "pause, go on"],
];

/**
 * Subclasses define `take(parameters of the URL)`, `ask(parameters for the server)` and `draw()`, which is called once the server has
 * answered; `isHeld()` says whether the user is doing something that a new answer would disturb.
 */
export class AnswersView {
  last = ""; // minutes that are shown, of SPANS
  paused = false;
  asking = false;
  nextAt = 0;
  generation = null; // generation of the rows at the last request
  shownAt = null; // time of the newest exchange in the answers, ns as digits

  constructor(place, source) {
    Object.assign(this, { place, source });
    if (source.live) this.renewed = (news) => this.takeNews(news);
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
    const { last = "" } = parameters;
    this.last = this.source.live && SPANS.some(([minutes]) => minutes === last) ? last : "";
    this.take(parameters);
    this.observer.observe(this.place);
    await this.load();
  }

  /** Ask the server and draw; the old answer is shown meanwhile. */
  async load() {
    const began = performance.now();
    const { lastNs, generation } = this.source;
    this.asking = true;
    try {
      await this.ask(this.last && lastNs ? { fromNs: String(BigInt(lastNs) - BigInt(this.last) * MINUTE_NS) } : {});
      this.isAnswered = true;
    } catch (error) {
      this.isAnswered = false;
      render(html`<p class="critical" role="alert">${visible(error.message)}</p>${this.waysOut()}`, this.place);
    }
    this.asking = false;
    Object.assign(this, { shownAt: lastNs, generation });
    this.nextAt = performance.now() + Math.min(Math.max(LEAST_MS, TIMES * (performance.now() - began)), MOST_MS);
    if (!this.isAnswered) return;
    this.draw();
    this.lookAgain();
  }

  /** Draw buttons that remove parameters the server refused. */
  waysOut() {
    return nothing;
  }

  /** The server reports new exchanges; see main.js. */
  takeNews(news) {
    this.source = { ...this.source, ...news };
    this.lookAgain();
  }

  lookAgain() {
    clearTimeout(this.timer);
    if (this.paused || this.asking || this.generation === this.source.generation) return;
    const wait = this.nextAt - performance.now();
    if (wait > 0 || document.hidden || this.isHeld()) this.timer = setTimeout(() => this.lookAgain(), Math.max(wait, LEAST_MS / 4));
    else this.load();
  }

  chooseSpan(last) {
    this.last = last;
    note({ last: last || null });
    this.load();
  }

  pause() {
    this.paused = !this.paused;
    this.draw();
    this.lookAgain();
  }

  /** Begin and end of the shown time, in ns (BigInt). */
  get shownTime() {
    const first = BigInt(this.source.firstNs ?? 0);
    const last = BigInt(this.shownAt ?? this.source.lastNs ?? 1);
    const from = this.last ? last - BigInt(this.last) * MINUTE_NS : first;
    return [from > first ? from : first, last];
  }

  /** Draw the choice of minutes and the time shown; nothing unless the source is a running proxy. */
  spanBar() {
    if (!this.source.live) return nothing;
    const [from, to] = this.shownTime;
    return html`<div class="bar live-span">
      <label>Of <select aria-label="Of which time" @change=${(event) => this.chooseSpan(event.target.value)}>${SPANS.map(([minutes, title]) => html`<option value=${minutes} ?selected=${minutes === this.last}>${title}</option>`)}</select></label>
      <button aria-pressed=${String(this.paused)} @click=${() => this.pause()}>${this.paused ? "Go on" : "Pause"}</button>
      <span class="note" title=${this.source.mostBytes ? `The newest ${bytes(this.source.mostBytes)} of exchanges are kept.` : nothing}>${this.shownAt ? `${clock(from)} to ${clock(to)} UTC${this.paused ? ", paused" : ""}` : this.source.lastNs ? nothing : "no exchange yet"}</span></div>`;
  }

  /** The width of charts, in pixels. */
  get width() {
    return widthOf({ clientWidth: this.place.clientWidth - (isPhone() ? 22 : 34) });
  }

  key(event) {
    if (!this.source.live) return false;
    if (event.key === "l") this.chooseSpan(SPANS[(SPANS.findIndex(([minutes]) => minutes === this.last) + 1) % SPANS.length][0]);
    else if (event.key === "p") this.pause();
    else return false;
    return true;
  }

  close() {
    this.paused = true;
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.place.classList.remove("page");
  }
}

const clock = (ns) => timeOfDay(isoOf(ns)).slice(0, 8);
