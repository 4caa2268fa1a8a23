/** The list of stopped messages with their countdowns. Rows of ended stops stay while the pointer or the focus is in the list. */

import { shortEnd } from "./stopped.js";
import { seconds, titleOf } from "./stop_words.js";
import { named, visible } from "./text.js";
import { html, render } from "./lit-html.js";

const MOST_ENDED = 20; // rows that stay, or as many as messages are stopped

export class StopRows {
  /** The buttons of a row call `open(id)`, `resume(stop)` and `keep(id)`; `opened()` returns the id of the open one. */
  constructor(place, stopped, doings) {
    this.place = place;
    this.stopped = stopped;
    this.doings = doings;
    this.rows = new Map(); // id -> {stop, ended}
    this.chosen = null; // id
    place.addEventListener("pointerleave", () => this.renew());
    place.addEventListener("focusout", () => setTimeout(() => this.renew()));
  }

  get isEmpty() {
    return this.rows.size === 0;
  }

  /** The list of stopped messages has changed. */
  renew() {
    const now = new Map(this.stopped.stops.map((stop) => [stop.id, stop]));
    const pointedAt = this.place.matches(":hover") || this.place.contains(document.activeElement);
    for (const [id, row] of this.rows) {
      row.ended = !now.has(id);
      if (row.ended && (!pointedAt || this.rows.size > 2 * now.size + MOST_ENDED)) this.rows.delete(id);
    }
    for (const [id, stop] of now) this.rows.set(id, { stop, ended: false });
    this.draw();
  }

  draw() {
    render([...this.rows.values()].map((row) => this.row(row)), this.place);
  }

  row({ stop, ended }) {
    const { open, opened, resume, keep } = this.doings;
    const left = this.stopped.left(stop);
    const time = ended
      ? html`<span class="time">${shortEnd(this.stopped.ends.of(stop.id))}</span>`
      : html`<progress max=${Math.max(stop.resumesMs - stop.stoppedMs, 1)} .value=${left} aria-label="Time left"></progress><span class="time">${seconds(left)}</span>`;
    return html`<li class="${ended ? "ended" : ""} ${stop.id === this.chosen ? "chosen" : ""}" data-id=${stop.id}>
      <button class="plain name" aria-expanded=${String(opened() === stop.id)} @click=${() => open(stop.id)} @focus=${() => this.choose(stop.id)}>${titleOf(stop)}</button>
      <span class="who">${named(stop.clientId)} <span class="muted"><bdi>${visible(stop.client)}</bdi></span></span>
      ${time}
      <span class="actions"><button ?disabled=${ended} @click=${() => resume(stop)}>Resume</button>
        <button ?disabled=${ended} @click=${() => keep(stop.id)}>Keep</button></span></li>`;
  }

  choose(id) {
    if (this.chosen === id) return;
    this.chosen = id;
    this.draw();
  }

  move(by) {
    const ids = [...this.rows.keys()];
    if (!ids.length) return;
    const at = ids.indexOf(this.chosen);
    this.chosen = ids[at < 0 ? 0 : Math.min(Math.max(at + by, 0), ids.length - 1)];
    this.draw();
    this.focus();
  }

  /** Focus the chosen row, else the first row, else the view. */
  focus() {
    const rows = [...this.place.querySelectorAll("li[data-id]")];
    const row = rows.find((one) => one.dataset.id === this.chosen) ?? rows[0];
    (row?.querySelector("button") ?? this.place.closest("#view")).focus();
  }

  /** Return the stop that keys act on: the chosen row while it waits; if the chosen one is not in the list, the open one. */
  meant(open) {
    const row = this.rows.get(this.chosen);
    if (row) return row.ended ? null : row.stop;
    return this.chosen === null || this.chosen === open?.id ? open : null;
  }

  /** Note that a stop has ended. If it was chosen, choose the next one, so that no key acts on it. */
  chooseAfter(id) {
    const ids = [...this.rows.keys()];
    const row = this.rows.get(id);
    if (row) row.ended = true;
    if (this.chosen !== id) return;
    const waiting = (one) => !this.rows.get(one).ended;
    const at = ids.indexOf(id);
    this.chosen = ids.slice(at + 1).find(waiting) ?? ids.slice(0, Math.max(at, 0)).findLast(waiting) ?? null;
  }
}
