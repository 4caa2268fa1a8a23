/** Breakpoints: set them, see what they have stopped, and decide what happens to it. */

import { say } from "./asking.js";
import { BreakpointLine } from "./breakpoint_line.js";
import { doneEntry } from "./decided.js";
import { isPhone } from "./columns.js";
import { note } from "./route.js";
import { StopEditor } from "./stop_editor.js";
import { StopRows } from "./stop_rows.js";
import { count, counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const TICK_MS = 200;
const MORE_S = 60;
const YAML = "page:\n  edits: true\n";
export const KEYS = [
  ["n", "write a breakpoint"],
  ["↓ ↑ j k", "next and previous stopped message"],
  ["Enter", "open it"],
  ["r R", "resume it; resume all"],
  ["m", "keep it stopped for a minute"],
  ["e", "answer it with an error"],
  ["D X", "drop it; close its connection"],
  ["Ctrl+Enter", "in its text: send it as edited"],
  ["Esc", "leave its text; close it"],
];

export class Breakpoints {
  constructor(place, source, stopped) {
    this.place = place;
    this.stopped = stopped;
    place.classList.add("page");
    render(
      html`<h2>Breakpoints</h2>
        <p class="note">A message that meets one of these conditions waits here, and so does all that follows it on its connection. It
          goes on by itself when its time is over, unless it is open below. Closing this page removes the breakpoints.</p>
        <div class="controls breakpoint"></div>
        <ul class="breakpoints"></ul>
        <div class="stopped-head bar"></div>
        <div class="stops-and-one">
          <ul class="stops"></ul>
          <section class="stop" aria-label="Stopped message" hidden></section>
        </div>
        <div class="done"></div>`,
      place,
    );
    this.line = new BreakpointLine(place.querySelector(".controls"), place.querySelector(".breakpoints"), stopped, {
      left: () => this.rows.focus(),
      drawn: () => this.draw(),
    });
    this.rows = new StopRows(place.querySelector(".stops"), stopped, {
      open: (id) => this.open(id),
      opened: () => this.editor.stop?.id,
      resume: (stop) => this.decide(stop, "resume"),
      keep: (id) => this.keep(id),
    });
    this.editor = new StopEditor(place.querySelector(".stop"), stopped, {
      left: () => this.leave(),
      toList: () => this.rows.focus(),
      done: (what) => this.noteDone(what),
    });
  }

  /** Take the parameters of the URL. A condition from there is written into the line but not set. */
  async enter({ condition, direction, stop = "" }) {
    const written = this.line.write({ condition, direction });
    this.stopsChanged();
    this.timer = setInterval(() => this.tick(), TICK_MS);
    await written;
    if (stop) await this.open(stop, false);
  }

  close() {
    clearInterval(this.timer);
    this.editor.close();
    this.closed = true;
    this.place.classList.remove("page");
  }

  /** A message was stopped or released, or a breakpoint changed. */
  stopsChanged() {
    if (this.closed) return;
    this.rows.renew();
    this.editor.renewed();
    this.draw();
  }

  tick() {
    if (this.rows.isEmpty && !this.editor.isOpen) return;
    this.rows.draw();
    if (!this.editor.isOpen || this.editor.gone) return;
    this.editor.stay();
    this.editor.draw();
  }

  draw() {
    this.line.draw();
    this.drawHead();
    this.rows.draw();
    render(this.stopped.done.map((one, at) => doneEntry(one, at)), this.place.querySelector(".done"));
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

  /** Open a stopped message. Returns whether it is still stopped. */
  async open(id, focus = true) {
    this.rows.chosen = id;
    try {
      await this.editor.show(id);
      note({ stop: id, condition: null, direction: null });
    } catch (error) {
      say(error.message);
      return false;
    }
    this.rows.draw();
    if (!focus) return true;
    this.editor.focus();
    this.editor.place.scrollIntoView({ block: isPhone() ? "start" : "nearest" });
    return true;
  }

  leave() {
    this.editor.close();
    note({ stop: null });
    this.rows.draw();
    this.rows.focus();
  }

  /** Handle a key of this view; true if it has a meaning here. */
  key(event) {
    const stop = this.rows.meant(this.editor.stop);
    const own = (work) => () => stop && work(stop);
    const doings = {
      n: () => this.line.focus(), j: () => this.rows.move(1), k: () => this.rows.move(-1), ArrowDown: () => this.rows.move(1), ArrowUp: () => this.rows.move(-1),
      R: () => this.resumeAll(), Escape: () => (this.editor.isOpen ? this.leave() : undefined),
      r: own((one) => this.decide(one, "resume")), m: own((one) => this.keep(one.id)), e: own((one) => this.fail(one)),
      D: own((one) => this.decide(one, "drop")), X: own((one) => this.decide(one, "close")),
    };
    doings[event.key]?.();
    return event.key in doings;
  }

  async fail(stop) {
    if (this.editor.stop?.id !== stop.id && !(await this.open(stop.id, false))) return;
    this.editor.fail();
  }

  async decide(stop, action) {
    if (this.editor.stop?.id === stop.id) return this.editor.decide(action);
    const rule = action === "resume" ? null : await this.stopped.rule(stop.id, action);
    await this.stopped.decide(stop.id, action);
    return this.noteDone({ stop, action, more: {}, changed: [], rule });
  }

  keep(id) {
    return this.stopped.keep(id, MORE_S);
  }

  async resumeAll() {
    const { resumed } = await this.stopped.resumeAll();
    say(`${counted(resumed, "message")} went on.`);
  }

  noteDone(what) {
    const isOpen = this.editor.stop?.id === what.stop.id;
    const had = isOpen && this.place.contains(document.activeElement) && document.activeElement !== document.body;
    if (isOpen) this.editor.close();
    note({ stop: null });
    this.rows.chooseAfter(what.stop.id);
    this.stopped.noteDone(what);
    this.draw();
    if (had) this.rows.focus();
  }
}

/** Shown instead of Breakpoints where none can be set: why, and how to allow them. */
export class BreakpointsOff {
  /** `stopped` is the Stopped that was used until the configuration forbade breakpoints, or null. */
  constructor(place, source, stopped) {
    this.place = place;
    place.classList.add("page");
    render(
      html`<h2>Breakpoints</h2>
        ${source.live ? html`<p>Requests and responses can be stopped and changed here once the configuration of <code>kproxy run</code> allows it; load the page anew then:</p>
            <pre class="command">${YAML}</pre><p class="note">It is for tests: it changes what clients see. Everyone who has the page's token can do it.</p>`
          : html`<p>This is what was captured. Requests and responses can be stopped in the live page of <code>kproxy run</code>, with <code>page: {edits: true}</code> in its configuration.</p>`}
        ${stopped?.off ? html`<p class="warning" role="status">They were allowed until now: the configuration has changed.</p>` : ""}
        <div class="done">${(stopped?.done ?? []).map((one, at) => doneEntry(one, at))}</div>`,
      place,
    );
  }

  async enter() {}

  close() {
    this.place.classList.remove("page");
  }
}
