/** The columns of the table of exchanges: which ones are shown, and how wide each is. */

import { ask } from "./asking.js";
import { html } from "./lit-html.js";

const ON_A_PHONE = ["requestAt", "apiName", "latencyMs", "clientId", "topics", "errorName"];
const KEPT = "kproxy columns";
const NEVER_CUT = new Set(["client", "broker"]); // an address without its port is of no use
const MARKED = new Set(["number", "apiName"]); // a sign may stand before these: edited, or the colour of the API
const PADDING = 13; // pixels, of a cell
const LEAST = 84; // pixels: texts are never cut to less
const MOST_TEXT = 40; // characters of a text that a column has room for
const TEXT_WIDTH = 0.92; // letters are narrower than digits, on average
const SPARE = 2; // digits more for a text: a short one may have only wide letters
export const UNITS = 24; // parts into which a line of a narrow window is divided
const SHORT = 13; // characters: shorter values are never cut
const PART = 0.8; // of the room for the longest values: most are shorter

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
 * Return the widths in pixels of columns side by side. In a window too narrow for all of them, texts get at most the same width, as
 * large as fits; addresses and numbers are never cut. In a wider window, the last column of text takes the rest.
 */
export function widthsOf(columns, needs, letter, room) {
  const spare = (column) => (NEVER_CUT.has(column.name) ? 0 : SPARE);
  const letters = needs.map((need, at) => (isText(columns[at]) ? need * TEXT_WIDTH + spare(columns[at]) : need));
  const wanted = letters.map((count) => Math.ceil(count * letter) + PADDING);
  const sum = (widths) => widths.reduce((a, b) => a + b, 0);
  const cutTo = (most) => wanted.map((width, at) => (isText(columns[at]) && !NEVER_CUT.has(columns[at].name) ? Math.min(width, most) : width));
  let most = Math.max(...wanted);
  while (most > LEAST && sum(cutTo(most)) > room) most -= 1;
  const widths = cutTo(most);
  const last = columns.findLastIndex(isText);
  if (last >= 0) widths[last] += Math.max(Math.floor(room) - sum(widths), 0);
  return widths;
}

/** Divide columns into lines for a narrow window. Returns the columns of each line as {units}, parts of its width. */
export function linesOf(needs, letter, room) {
  const padded = needs.map((need) => need + PADDING / letter);
  const lines = Math.max(Math.ceil((PART * padded.reduce((a, b) => a + b, 0) * letter) / room), 1);
  return divided(padded, lines).map((line) => {
    return shared(shortened(line, room / letter)).map((units) => ({ units }));
  });
}

/** Divide sizes into at most `most` groups of neighbours, so that the largest sum of a group is as small as possible. */
function divided(sizes, most) {
  let bound = Math.max(...sizes);
  for (;;) {
    const groups = [];
    let sum = Infinity;
    sizes.forEach((size) => {
      if (sum + size > bound) {
        groups.push([]);
        sum = 0;
      }
      groups.at(-1).push(size);
      sum += size;
    });
    if (groups.length <= most) return groups;
    bound += 1;
  }
}

/** Shorten the long values of a line that has too little room; short ones stay whole. */
function shortened(sizes, room) {
  const total = (some) => some.reduce((a, b) => a + b, 0);
  const long = total(sizes.filter((size) => size > SHORT));
  const left = room - total(sizes) + long;
  if (left >= long || left < long / 3) return sizes;
  return sizes.map((size) => (size > SHORT ? (size / long) * left : size));
}

/** Share all units of a line in proportion to sizes. */
function shared(sizes) {
  const sum = sizes.reduce((a, b) => a + b, 0);
  const exact = sizes.map((size) => (size / sum) * UNITS);
  const units = exact.map((one) => Math.max(Math.floor(one), 1));
  for (let left = UNITS - units.reduce((a, b) => a + b, 0); left !== 0; left -= Math.sign(left)) {
    const lacking = exact.map((one, at) => one - units[at]);
    units[lacking.indexOf((left > 0 ? Math.max : Math.min)(...lacking))] += Math.sign(left);
  }
  return units;
}
