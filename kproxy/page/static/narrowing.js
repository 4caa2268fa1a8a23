/** Conditions made from the chosen exchange by clicks and keys, for the filter or as a breakpoint. */

import { ask, say } from "./asking.js";
import { conditionsOf, fromHost, stopConditions } from "./conditions.js";
import { go } from "./route.js";
import { visible } from "./text.js";
import { html, render } from "./lit-html.js";

const MOST_ELEMENTS = 8; // of a list that a menu offers

export class Narrowing {
  /**
   * `chosen` has two functions about the chosen exchange: `valueOf(column)` and `row()`, the whole row, or null if none is chosen.
   * `stopped` has the breakpoints; null where none can be set.
   */
  constructor(source, line, chosen, stopped) {
    Object.assign(this, { line, chosen, stopped });
    this.columns = new Map(source.columns.map((one) => [one.name, one]));
    this.names = new Set(source.names.map((one) => one.name));
  }

  conditions(name, value) {
    const column = this.columns.get(name);
    return column ? conditionsOf(column, value, this.names) : null;
  }

  /** Add the condition "only" or "not" for the chosen exchange's value in a column. */
  write(which, name) {
    const conditions = this.conditions(name, this.chosen.valueOf(name));
    if (!conditions) return say(this.names.has(name) ? `Write a span for ${name}, as in ${name} >= "2026-01-31T12:00:00.000000Z", or select one in Time.` : `A filter cannot name ${name}.`);
    return this.line.add(conditions[which]);
  }

  /** Return the menu entries for a cell of the chosen exchange. */
  entries(name) {
    const value = this.chosen.valueOf(name);
    const conditions = this.conditions(name, value);
    const several = Array.isArray(value) && value.length > 1 ? value.slice(0, MOST_ELEMENTS) : [];
    const each = several.map((one) => this.conditions(name, [one])?.only).filter(Boolean);
    const add = (condition) => () => this.line.add(condition);
    return [
      ...(conditions ? [[`Only ${conditions.only}`, add(conditions.only)], [`Not: ${conditions.not}`, add(conditions.not)]] : []),
      ...each.map((only) => [`Only ${only}`, add(only)]),
      ["Only this client's host", () => this.onlyHost()],
    ];
  }

  async onlyHost() {
    const row = await this.chosen.row();
    if (row?.client) this.line.add(fromHost(row.client));
  }

  /** Let the user choose a breakpoint that stops exchanges like the chosen one, and set it. */
  async stopSuch() {
    if (!this.stopped) return say("Breakpoints are off here: they are for kproxy run with page.edits in its configuration.");
    const row = await this.chosen.row();
    if (!row) return undefined;
    const choose = (work) => () => {
      dialog.close();
      work();
    };
    const choices = stopConditions(row);
    const dialog = ask(
      "Add a breakpoint",
      html`<ul class="choices-of-stops">${choices.map(({ title, condition }) => html`<li><button title=${visible(condition)} @click=${choose(() => this.addBreakpoint(condition))}>${visible(title)}</button></li>`)}
        <li><button @click=${choose(() => go("breakpoints", { condition: choices[0].condition }))}>Write another condition…</button></li></ul>`,
    );
    return dialog.querySelector(".choices-of-stops button").focus();
  }

  async addBreakpoint(condition) {
    const { breakpoints } = this.stopped;
    const made = { condition, direction: "request" };
    if (!breakpoints.some((one) => one.condition === condition && one.direction === made.direction)) await this.stopped.set([...breakpoints, made]);
    go("breakpoints");
  }
}

/** Open a menu at {x, y} in the window; entries are [text, function]. Arrows move in it, Esc closes it. */
export function openMenu({ x, y }, entries) {
  const before = document.activeElement;
  const menu = document.createElement("div");
  menu.className = "menu";
  menu.role = "menu";
  menu.popover = "auto";
  document.body.append(menu);
  const run = (doing) => {
    menu.hidePopover();
    doing();
  };
  render(html`${entries.map(([text, doing]) => html`<button role="menuitem" @click=${() => run(doing)}>${visible(text)}</button>`)}`, menu);
  menu.addEventListener("keydown", (event) => pressed(event, menu));
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) before?.focus();
    menu.remove();
  });
  menu.showPopover();
  menu.style.left = `${Math.max(Math.min(x, window.innerWidth - menu.offsetWidth - 4), 4)}px`;
  menu.style.top = `${Math.max(Math.min(y, window.innerHeight - menu.offsetHeight - 4), 4)}px`;
  menu.querySelector("button").focus();
}

function pressed(event, menu) {
  const buttons = [...menu.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  else if (to === undefined) return;
  else buttons.at(to % buttons.length).focus();
  event.preventDefault();
  event.stopPropagation();
}
