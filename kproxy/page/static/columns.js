/** The columns of the table of exchanges: which ones are shown, and how wide each is. */

import { ask } from "./asking.js";
import { html } from "./lit-html.js";

const ON_A_PHONE = ["requestAt", "apiName", "latencyMs", "clientId", "topics", "errorName"];
const KEPT = "kproxy columns";
const NEVER_CUT = new Set(["client", "broker"]); // a port that is cut off is no address
const MARKED = new Set(["number", "apiName"]); // a sign may stand before them: edited, the colour of the API
const PADDING = 13; // pixels, of a cell
const LEAST = 84; // pixels, of a text that is cut to fit
const MOST_TEXT = 40; // characters that a text is given room for
const TEXT_WIDTH = 0.92; // letters are narrower than digits, on average
export const UNITS = 24; // of the width of a line in a narrow window
const SHORT = 13; // characters
const PART = 0.8; // of what the longest values need: most are shorter

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

/** The words of a column's name, between which its heading is broken into lines where columns stand side by side: "request", "Size". */
export const wordsOf = (name) => name.split(/(?=[A-Z])/);

/** How many characters each column needs, by its name and the texts in it. */
export function needsOf(columns, texts) {
  return columns.map((column, at) => {
    const longest = texts.reduce((most, row) => Math.max(most, row[at].length), 0);
    const head = isPhone() ? column.name.length + 1 : Math.max(...wordsOf(column.name).map((word) => word.length)) + 1;
    const need = Math.max(longest + (MARKED.has(column.name) ? 2 : 0), head, 4);
    return isText(column) && !NEVER_CUT.has(column.name) ? Math.min(need, MOST_TEXT) : need;
  });
}

/**
 * Widths in pixels, side by side: what each column needs. Where the window is too narrow for all, the longest texts are cut to one
 * width, which is as large as fits; addresses and numbers are never cut. Where it is wider, the last text has what is left.
 */
export function widthsOf(columns, needs, letter, room) {
  const wanted = needs.map((need, at) => Math.ceil(need * letter * (isText(columns[at]) ? TEXT_WIDTH : 1)) + PADDING);
  const sum = (widths) => widths.reduce((a, b) => a + b, 0);
  const cutTo = (most) => wanted.map((width, at) => (isText(columns[at]) && !NEVER_CUT.has(columns[at].name) ? Math.min(width, most) : width));
  let most = Math.max(...wanted);
  while (most > LEAST && sum(cutTo(most)) > room) most -= 1;
  const widths = cutTo(most);
  const last = columns.findLastIndex(isText);
  if (last >= 0) widths[last] += Math.max(Math.floor(room) - sum(widths), 0);
  return widths;
}

/** Lines of columns that share a narrow window's width: for each line, its columns in their order, {units: of its width}. */
export function linesOf(needs, letter, room) {
  const padded = needs.map((need) => need + PADDING / letter);
  const lines = Math.max(Math.ceil((PART * padded.reduce((a, b) => a + b, 0) * letter) / room), 1);
  return divided(padded, lines).map((line) => {
    return shared(shortened(line, room / letter)).map((units) => ({ units }));
  });
}

/** The sizes in at most so many groups of neighbours, the largest sum of which is as small as can be. */
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

/** Where a line has too little room: long values are shortened, short ones and names of columns stay whole. */
function shortened(sizes, room) {
  const total = (some) => some.reduce((a, b) => a + b, 0);
  const long = total(sizes.filter((size) => size > SHORT));
  const left = room - total(sizes) + long;
  if (left >= long || left < long / 3) return sizes;
  return sizes.map((size) => (size > SHORT ? (size / long) * left : size));
}

/** Units of a line for each size, in proportion; together all of them. */
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
