/** The line in which a breakpoint is written, and the list of breakpoints that are set. */

import { get } from "./api.js";
import { FilterLine } from "./filter_line.js";
import { note } from "./route.js";
import { counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const MOST_APIS = 8; // names of APIs shown for a condition
const LONGEST = 4_000; // characters
const DIRECTIONS = [
  ["request", "Requests"],
  ["response", "Responses"],
];

export class BreakpointLine {
  /** `left()` gives the focus to the list of stopped messages, `drawn()` is called after a change. */
  constructor(controls, list, stopped, doings) {
    this.controls = controls;
    this.list = list;
    this.stopped = stopped;
    this.drawn = doings.drawn;
    this.direction = "request";
    this.changing = null; // the breakpoint that is being changed in the line
    render(html`<div class="direction"></div><div class="filter"></div><div class="bar"></div>`, controls);
    this.line = new FilterLine(controls.querySelector(".filter"), (condition) => this.set(condition), this.condition());
    this.line.place.addEventListener("leave", () => doings.left());
  }

  /** What FilterLine needs to check and complete a condition. */
  condition() {
    return {
      label: "Condition in CEL",
      placeholder: 'Condition, as in apiName == "Produce" && "orders" in topics',
      complete: (text, cursor) => get("complete", { text, cursor, of: this.direction }),
      check: (condition, signal) => this.stopped.checkBreakpoint({ condition, direction: this.direction }, signal),
      meaning: ({ apis, all }) => html`<p class="said muted">Of ${all ? "every API that can be stopped" : `${apis.slice(0, MOST_APIS).join(", ")}${apis.length > MOST_APIS ? ` and ${counted(apis.length - MOST_APIS, "more API")}` : ""}`}.</p>`,
    };
  }

  /** Write a condition into the line without setting it. */
  write({ condition = "", direction = "request" }) {
    this.direction = direction === "response" ? "response" : "request";
    this.line.set(condition);
    if (!condition) return undefined;
    this.line.focus();
    return this.line.check();
  }

  focus() {
    this.line.focus();
  }

  draw() {
    const turn = (event) => {
      this.direction = event.target.value;
      this.line.check();
    };
    render(
      html`<select aria-label="What is stopped" @change=${turn}>${DIRECTIONS.map(([id, title]) => html`<option value=${id} ?selected=${id === this.direction}>${title}</option>`)}</select>`,
      this.controls.querySelector(".direction"),
    );
    this.controls.querySelector(".direction select").value = this.direction;
    render(
      html`<button @click=${() => this.line.apply()}>${this.changing ? "Change" : "Add"}</button>
        ${this.changing ? html`<button @click=${() => this.stopChanging()}>Cancel</button>` : nothing}`,
      this.controls.querySelector(".bar"),
    );
    this.drawList();
  }

  drawList() {
    const { breakpoints, givenUp } = this.stopped;
    const problem = (one) => givenUp.find((other) => isSame(other, one))?.why;
    render(
      breakpoints.length
        ? breakpoints.map((one) => html`<li class=${one === this.changing ? "chosen" : ""}><span class="kind">${one.direction}</span> <code><bdi>${visible(one.condition, LONGEST)}</bdi></code>
            <span class="actions"><button @click=${() => this.change(one)}>Change</button> <button @click=${() => this.remove(one)}>Remove</button></span>
            ${problem(one) ? html`<p class="warning" role="status">${visible(problem(one), LONGEST)}</p>` : nothing}</li>`)
        : html`<li class="none">None is set: all messages pass.</li>`,
      this.list,
    );
  }

  async set(condition) {
    if (condition === "") return;
    const made = { condition, direction: this.direction };
    const { breakpoints } = this.stopped;
    const at = this.changing ? breakpoints.findIndex((one) => isSame(one, this.changing)) : -1;
    await this.stopped.set(at < 0 ? [...breakpoints, made] : breakpoints.with(at, made));
    this.stopChanging();
  }

  change(one) {
    this.changing = one;
    this.direction = one.direction;
    this.line.set(one.condition);
    this.drawn();
    this.line.focus();
  }

  stopChanging() {
    this.changing = null;
    this.line.set("");
    note({ condition: null, direction: null });
    this.drawn();
  }

  async remove(one) {
    await this.stopped.set(this.stopped.breakpoints.filter((other) => !isSame(other, one)));
    this.list.closest("#view").focus();
  }
}

const isSame = (a, b) => a.condition === b.condition && a.direction === b.direction;
