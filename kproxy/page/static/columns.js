/** Which columns the table of exchanges has: those that a person chose, else those that fit the window. */

import { ask } from "./asking.js";
import { html } from "./lit-html.js";

const ON_A_PHONE = ["requestAt", "apiName", "latencyMs", "clientId", "topics", "errorName"];
const KEPT = "kproxy columns";

const phone = window.matchMedia("(max-width: 760px)");
export const isPhone = () => phone.matches;
export const isText = (column) => column.type === "text" || column.type === "texts";
export const isRight = (column) => column.type === "number" || column.type === "integer";

/** Those of `all` to begin with. */
export function firstColumns(all) {
  const named = (names) => names.map((name) => all.find((one) => one.name === name)).filter(Boolean);
  const kept = named((localStorage.getItem(KEPT) ?? "").split(","));
  if (kept.length) return kept;
  const narrow = isPhone() ? named(ON_A_PHONE) : [];
  if (narrow.length) return narrow;
  const shown = all.filter((one) => one.shown);
  return shown.length ? shown : all.slice(0, 8);
}

/** Ask which of `all` to have; `changed(columns)` is called at each change, never with none. */
export function chooseColumns(all, present, changed) {
  const chosen = new Set(present.map((one) => one.name));
  const change = (name, box) => {
    if (chosen.size === 1 && !box.checked) box.checked = true; // one stays
    box.checked ? chosen.add(name) : chosen.delete(name);
    const columns = all.filter((one) => chosen.has(one.name));
    localStorage.setItem(KEPT, columns.map((one) => one.name).join(","));
    changed(columns);
  };
  ask("Columns", html`<ul class="columns">${all.map((column) => html`<li><label title=${column.meaning ?? ""}>
    <input type="checkbox" ?checked=${chosen.has(column.name)} @change=${(event) => change(column.name, event.target)} />
    ${column.name} <span class="note">${column.meaning ?? ""}</span></label></li>`)}</ul>`);
}
