/** Breakpoints: which requests and responses are stopped, those that are, and what a person does with them. */

import { get } from "./api.js";
import { say } from "./asking.js";
import { decisionEntry } from "./decided.js";
import { FilterLine } from "./filter_line.js";
import { note } from "./route.js";
import { StopEditor, seconds, titleOf } from "./stop_editor.js";
import { count, counted, named, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const TICK_MS = 200;
const MORE_S = 60;
const MOST_DONE = 20;
const MOST_APIS = 8; // that are named of a condition
const DIRECTIONS = [
  ["request", "Requests"],
  ["response", "Responses"],
];
export const KEYS = [
  ["n", "write a breakpoint"],
  ["↓ ↑ j k", "next and previous stopped message"],
  ["Enter", "look into it"],
  ["r R", "let it go on; let all go on"],
  ["m", "keep it stopped for a minute"],
  ["e", "answer it with an error"],
  ["D X", "drop it; close its connection"],
  ["Ctrl+Enter", "in its text: send it as edited"],
  ["Esc", "leave its text; leave it"],
];

export class Breakpoints {
  constructor(place, source, stopped) {
    this.place = place;
    this.stopped = stopped;
    this.direction = "request";
    this.changing = null; // the breakpoint that the line has
    this.rows = new Map(); // of the id: {stop, ended}; those that have ended stay while a person points at the list
    this.chosen = null; // id
    place.classList.add("page");
    render(
      html`<h2>Breakpoints</h2>
        <p class="note">A message that meets one of these waits here, and with it all that follows it on its connection. It goes on by itself when its time is over.
          Breakpoints are removed when this page is closed.</p>
        <div class="controls breakpoint"></div>
        <ul class="breakpoints"></ul>
        <div class="stopped-head bar"></div>
        <div class="stops-and-one">
          <ul class="stops" @pointerleave=${() => this.stopsChanged()} @focusout=${() => setTimeout(() => this.stopsChanged())}></ul>
          <section class="stop" aria-label="Stopped message" hidden></section>
        </div>
        <div class="done"></div>`,
      place,
    );
    const controls = place.querySelector(".controls");
    render(html`<div class="direction"></div><div class="filter"></div><div class="bar"></div>`, controls);
    this.line = new FilterLine(controls.querySelector(".filter"), (condition) => this.set(condition), this.condition());
    this.line.place.addEventListener("leave", () => this.focusRow());
    this.listPlace = place.querySelector(".stops");
    this.editor = new StopEditor(place.querySelector(".stop"), stopped, {
      left: () => this.leave(),
      toList: () => this.focusRow(),
      done: (what) => this.noteDone(what),
    });
  }

  /** What the line asks. */
  condition() {
    return {
      label: "Condition in CEL",
      placeholder: 'Condition, as in api == "Produce" && "orders" in topics',
      complete: (text, cursor) => get("complete", { text, cursor, of: this.direction }),
      check: (condition, signal) => this.stopped.checkBreakpoint({ condition, direction: this.direction }, signal),
      meaning: ({ apis, all }) => html`<p class="said muted">Of ${all ? "every API that can be stopped" : `${apis.slice(0, MOST_APIS).join(", ")}${apis.length > MOST_APIS ? ` and ${counted(apis.length - MOST_APIS, "more API")}` : ""}`}.</p>`,
    };
  }

  /** Take the parameters of the URL: a condition is written, and not set. */
  async enter({ condition = "", direction = "request", stop = "" }) {
    this.direction = direction === "response" ? "response" : "request";
    this.line.set(condition);
    this.stopsChanged();
    this.timer = setInterval(() => this.tick(), TICK_MS);
    if (condition) {
      this.line.focus();
      await this.line.check();
    }
    if (stop) await this.open(stop, false);
  }

  close() {
    clearInterval(this.timer);
    this.editor.close();
    this.closed = true;
    this.place.classList.remove("page");
  }

  /** Something is stopped, goes on, or is set. */
  stopsChanged() {
    if (this.closed) return;
    const now = new Map(this.stopped.stops.map((stop) => [stop.id, stop]));
    const pointedAt = this.listPlace.matches(":hover") || this.listPlace.contains(document.activeElement);
    for (const [id, row] of this.rows) {
      row.ended = !now.has(id);
      if (row.ended && (!pointedAt || this.rows.size > 2 * now.size + 20)) this.rows.delete(id);
    }
    for (const [id, stop] of now) this.rows.set(id, { stop, ended: false });
    this.editor.renewed();
    this.draw();
  }

  tick() {
    if (!this.rows.size && !this.editor.isOpen) return;
    this.drawStops();
    if (this.editor.isOpen && !this.editor.gone) this.editor.draw();
  }

  draw() {
    this.drawLine();
    this.drawBreakpoints();
    this.drawHead();
    this.drawStops();
    render(this.stopped.done.map((one, at) => decisionEntry(one, at)), this.place.querySelector(".done"));
  }

  drawLine() {
    const turn = (event) => {
      this.direction = event.target.value;
      this.line.check();
    };
    render(
      html`<select aria-label="What is stopped" @change=${turn}>${DIRECTIONS.map(([id, title]) => html`<option value=${id} ?selected=${id === this.direction}>${title}</option>`)}</select>`,
      this.place.querySelector(".direction"),
    );
    this.place.querySelector(".direction select").value = this.direction;
    render(
      html`<button @click=${() => this.line.apply()}>${this.changing ? "Change" : "Add"}</button>
        ${this.changing ? html`<button @click=${() => this.stopChanging()}>Cancel</button>` : nothing}`,
      this.place.querySelector(".controls .bar"),
    );
  }

  drawBreakpoints() {
    const { breakpoints } = this.stopped;
    render(
      breakpoints.length
        ? breakpoints.map((one) => html`<li class=${one === this.changing ? "chosen" : ""}><span class="kind">${one.direction}</span> <code><bdi>${visible(one.condition, 4_000)}</bdi></code>
            <span class="actions"><button @click=${() => this.change(one)}>Change</button> <button @click=${() => this.remove(one)}>Remove</button></span></li>`)
        : html`<li class="none">None is set: all messages pass.</li>`,
      this.place.querySelector(".breakpoints"),
    );
  }

  drawHead() {
    const { total, stops, problem } = this.stopped;
    render(
      html`<h2>Stopped</h2> <span aria-live="polite">${total ? counted(total, "message") : "nothing"}</span>
        <button ?disabled=${!total} @click=${() => this.resumeAll()} title="Key R">Resume all</button>
        ${total > stops.length ? html`<span class="note">The oldest ${count(stops.length)} are shown.</span>` : nothing}
        ${problem === null ? nothing : html`<p class="critical" role="alert">${visible(problem)}</p>`}`,
      this.place.querySelector(".stopped-head"),
    );
  }

  drawStops() {
    render([...this.rows.values()].map((row) => this.row(row)), this.listPlace);
  }

  row({ stop, ended }) {
    const isOpen = this.editor.stop?.id === stop.id;
    const left = this.stopped.left(stop);
    return html`<li class="${ended ? "ended" : ""} ${stop.id === this.chosen ? "chosen" : ""}" data-id=${stop.id}>
      <button class="plain name" aria-expanded=${String(isOpen)} @click=${() => this.open(stop.id)} @focus=${() => this.choose(stop.id)}>${titleOf(stop)}</button>
      <span class="who">${named(stop.clientId)} <span class="muted"><bdi>${visible(stop.client)}</bdi></span></span>
      ${ended ? html`<span class="time">went on</span>` : html`<progress max=${Math.max(stop.resumesMs - stop.stoppedMs, 1)} .value=${left} aria-label="Time left"></progress><span class="time">${seconds(left)}</span>`}
      <span class="actions"><button ?disabled=${ended} @click=${() => this.decide(stop, "resume")}>Resume</button>
        <button ?disabled=${ended} @click=${() => this.keep(stop.id)}>Keep</button></span></li>`;
  }

  choose(id) {
    if (this.chosen === id) return;
    this.chosen = id;
    this.drawStops();
  }

  move(by) {
    const ids = [...this.rows.keys()];
    if (!ids.length) return;
    const at = ids.indexOf(this.chosen);
    this.chosen = ids[at < 0 ? 0 : Math.min(Math.max(at + by, 0), ids.length - 1)];
    this.drawStops();
    this.focusRow();
  }

  /** The focus to the row that is chosen, else to the first. */
  focusRow() {
    const rows = [...this.listPlace.querySelectorAll("li[data-id]")];
    const row = rows.find((one) => one.dataset.id === this.chosen) ?? rows[0];
    (row?.querySelector("button") ?? this.place).focus();
  }

  /** Look into a stop. Returns whether it is there still. */
  async open(id, focus = true) {
    this.chosen = id;
    try {
      await this.editor.show(id);
      note({ stop: id, condition: null, direction: null });
    } catch (error) {
      say(error.message);
      return false;
    }
    this.drawStops();
    if (!focus) return true;
    this.editor.text.focus({ preventScroll: true });
    this.editor.place.scrollIntoView({ block: window.innerWidth < 760 ? "start" : "nearest" });
    return true;
  }

  leave() {
    this.editor.close();
    note({ stop: null });
    this.drawStops();
    this.focusRow();
  }

  /** The stop that keys mean: the one that is chosen, while it waits; of one that is not in the list, where it is open. */
  meant() {
    const row = this.rows.get(this.chosen);
    if (row) return row.ended ? null : row.stop;
    return this.chosen === null || this.chosen === this.editor.stop?.id ? this.editor.stop : null;
  }

  /** Keys of the whole view; true where one was meant. */
  key(event) {
    const stop = this.meant();
    const own = (work) => () => stop && work(stop);
    const doings = {
      n: () => this.line.focus(), j: () => this.move(1), k: () => this.move(-1), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
      R: () => this.resumeAll(), Escape: () => (this.editor.isOpen ? this.leave() : undefined),
      r: own((one) => this.decide(one, "resume")), m: own((one) => this.keep(one.id)), e: own((one) => this.fail(one)),
      D: own((one) => this.decide(one, "drop")), X: own((one) => this.decide(one, "close")),
    };
    if (event.target.closest('[role="tablist"]') && event.key.startsWith("Arrow")) return false;
    doings[event.key]?.();
    return event.key in doings;
  }

  async fail(stop) {
    if (this.editor.stop?.id !== stop.id && !(await this.open(stop.id, false))) return;
    this.editor.fail();
  }

  async decide(stop, action) {
    if (this.editor.stop?.id === stop.id) return this.editor.decide(action);
    try {
      const rule = action === "resume" ? null : await this.stopped.rule(stop.id, action);
      await this.stopped.decide(stop.id, action);
      return this.noteDone({ stop, action, more: {}, changed: [], rule });
    } catch (error) {
      return say(error.message);
    }
  }

  async keep(id) {
    try {
      await this.stopped.keep(id, MORE_S);
    } catch (error) {
      say(error.message);
    }
  }

  async resumeAll() {
    try {
      const { resumed } = await this.stopped.resumeAll();
      say(`${counted(resumed, "message")} went on.`);
    } catch (error) {
      say(error.message);
    }
  }

  noteDone(what) {
    const had = this.editor.stop?.id === what.stop.id && this.place.contains(document.activeElement) && document.activeElement !== document.body;
    if (this.editor.stop?.id === what.stop.id) this.editor.close();
    note({ stop: null });
    this.chooseAfter(what.stop.id);
    this.stopped.done = [{ ...what, at: new Date() }, ...this.stopped.done].slice(0, MOST_DONE);
    this.draw();
    if (had) this.focusRow();
  }

  /** A stop has ended: if it was chosen, the next one is, so that no key means it any more. */
  chooseAfter(id) {
    const ids = [...this.rows.keys()];
    const row = this.rows.get(id);
    if (row) row.ended = true;
    if (this.chosen !== id) return;
    const waiting = (one) => !this.rows.get(one).ended;
    const at = ids.indexOf(id);
    this.chosen = ids.slice(at + 1).find(waiting) ?? ids.slice(0, Math.max(at, 0)).findLast(waiting) ?? null;
  }

  async set(condition) {
    if (condition === "") return;
    const made = { condition, direction: this.direction };
    const { breakpoints } = this.stopped;
    const at = this.changing ? breakpoints.findIndex((one) => isSame(one, this.changing)) : -1;
    if (await this.put(at < 0 ? [...breakpoints, made] : breakpoints.with(at, made))) this.stopChanging();
  }

  change(one) {
    this.changing = one;
    this.direction = one.direction;
    this.line.set(one.condition);
    this.draw();
    this.line.focus();
  }

  stopChanging() {
    this.changing = null;
    this.line.set("");
    note({ condition: null, direction: null });
    this.draw();
  }

  async remove(one) {
    await this.put(this.stopped.breakpoints.filter((other) => !isSame(other, one)));
    this.place.focus();
  }

  async put(breakpoints) {
    try {
      await this.stopped.set(breakpoints);
      return true;
    } catch (error) {
      say(error.message);
      return false;
    }
  }
}

const isSame = (a, b) => a.condition === b.condition && a.direction === b.direction;
