/** The columns of the table of exchanges: which ones are shown, and how wide each is. */

import { ask } from "./asking.js";
import { html } from "./lit-html.js";

const ON_A_PHONE = ["requestAt", "apiName", "latencyMs", "clientId", "topics", "errorName"];
const KEPT = "kproxy columns";
const NEVER_CUT = new Set(["client", "broker", "apiName"]); // an address without its port is of no use, names of APIs are alike
const MARKED = new Set(["number", "apiName"]); // a sign may stand before these: edited, or the colour of the API
const PADDING = 13; // pixels, of a cell
const LEAST = 84; // pixels: texts are never cut to less
const MOST_TEXT = 40; // characters of a text that a column has room for
const TEXT_WIDTH = 0.92; // letters are narrower than digits, on average
const SPARE = 2; // digits more for a text: a short one may have only wide letters
const SHORT = 13; // characters: shorter values are not cut in a narrow window
const PART = 0.6; // of the room for the longest values there: most are shorter

const phone = window.matchMedia("(max-width: 760px)");
export const isPhone = () => phone.matches;
const isText = (column) => column.type === "text" || column.type === "texts";
export const isRight = (column) => column.type === "number" || column.type === "integer";

/** Return the columns to begin with. */
export function firstColumns(all) {
  const named = (names) => names.map((name) => all.find((one) => one.name === name)).filter(Boolean);
  const kept = named((localStorage.getItem(KEPT) ?? "").split(","));
  if (kept.length) return kept;
  const narrow = isPhone() ? named(ON_A_PHONE) : [];
  if (narrow.length) return narrow;
  const shown = all.filter((one) => one.shown);
  return shown.length ? shown : all.slice(0, 8);
}

/** Let the user choose among all columns; `changed(columns)` is called at each change, with at least one. */
export function chooseColumns(all, present, changed) {
  const chosen = new Set(present.map((one) => one.name));
  const change = (name, box) => {
    if (chosen.size === 1 && !box.checked) box.checked = true; // the last column stays
    box.checked ? chosen.add(name) : chosen.delete(name);
    const columns = all.filter((one) => chosen.has(one.name));
    localStorage.setItem(KEPT, columns.map((one) => one.name).join(","));
    changed(columns);
  };
  ask("Columns", html`<ul class="columns">${all.map((column) => html`<li><label title=${column.meaning ?? ""}>
    <input type="checkbox" ?checked=${chosen.has(column.name)} @change=${(event) => change(column.name, event.target)} />
    ${column.name} <span class="note">${column.meaning ?? ""}</span></label></li>`)}</ul>`);
}

/** Return the words of a column's name, "request" and "Size": a wide table breaks its heading between them. */
export const wordsOf = (name) => name.split(/(?=[A-Z])/);

/** Return how many characters each column needs for its name and its texts. */
export function needsOf(columns, texts) {
  return columns.map((column, at) => {
    const longest = texts.reduce((most, row) => Math.max(most, row[at].length), 0);
    const head = isPhone() ? column.name.length + 1 : Math.max(...wordsOf(column.name).map((word) => word.length)) + 1;
    const need = Math.max(longest + (MARKED.has(column.name) ? 2 : 0), head, 4);
    return isText(column) && !NEVER_CUT.has(column.name) ? Math.min(need, MOST_TEXT) : need;
  });
}

/**
 * Return, for columns side by side, how the browser lays out each one: {grow, shrink, basis, least}, in pixels. In a window too narrow
 * for all of them texts shrink, the longest most; addresses and numbers are never cut. In a wider one, the last text takes the rest.
 */
export function sideBySide(columns, needs, letter) {
  const last = columns.findLastIndex(isText);
  return columns.map((column, at) => {
    const whole = !isText(column) || NEVER_CUT.has(column.name);
    const letters = (isText(column) ? needs[at] * TEXT_WIDTH : needs[at]) + (whole ? 0 : SPARE);
    const basis = Math.ceil(letters * letter) + PADDING;
    const least = whole ? basis : Math.min(basis, LEAST);
    return { grow: at === last ? 1 : 0, shrink: (100 * (basis - least)) / basis, basis, least };
  });
}

/** The same for a narrow window, in which columns that do not fit go on in the next line. */
export function inLines(needs, letter) {
  return needs.map((need) => ({ grow: need, shrink: 1, basis: Math.ceil(Math.max(Math.min(need, SHORT), PART * need) * letter) + PADDING, least: 0 }));
}
