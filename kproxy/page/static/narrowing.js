/** Conditions that clicks and keys write from the chosen exchange: into the filter, or as a breakpoint. */

import { ask, say } from "./asking.js";
import { conditionsOf, fromHost, stopConditions } from "./conditions.js";
import { go } from "./route.js";
import { visible } from "./text.js";
import { html } from "./lit-html.js";

const MOST_ELEMENTS = 8; // of a list, in a menu

export class Narrowing {
  /** `chosen` gives of the chosen exchange: `valueOf(column)`, `row()` (all of it, null: none is chosen). */
  constructor(source, line, chosen) {
    Object.assign(this, { line, chosen });
    this.columns = new Map(source.columns.map((one) => [one.name, one]));
    this.names = new Set(source.names.map((one) => one.name));
  }

  conditions(name, value) {
    const column = this.columns.get(name);
    return column ? conditionsOf(column, value, this.names) : null;
  }

  /** Write "only" or "not" what the chosen exchange has in a column. */
  write(which, name) {
    const conditions = this.conditions(name, this.chosen.valueOf(name));
    if (!conditions) return say(this.names.has(name) ? `Write a span for ${name}, as in ${name} >= "2026-01-31T12:00:00.000000Z", or select one in Time.` : `A filter cannot name ${name}.`);
    return this.line.add(conditions[which]);
  }

  /** Entries of a menu for a cell. */
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

  /** Write a breakpoint that meets exchanges like the chosen one; in its view a person sets it. */
  async stopSuch() {
    const row = await this.chosen.row();
    if (!row) return;
    const write = (condition) => {
      dialog.close();
      go("breakpoints", { condition });
    };
    const dialog = ask(
      "Write a breakpoint",
      html`<ul class="choices-of-stops">${stopConditions(row).map(({ title, condition }) => html`<li><button @click=${() => write(condition)}>${visible(title)}</button></li>`)}</ul>`,
    );
    dialog.querySelector(".choices-of-stops button").focus();
  }
}
