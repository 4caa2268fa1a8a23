/** How wide columns are: side by side in a wide window; in a narrow one a row has several lines of them. */

import { isText } from "./columns.js";

const PADDING = 13; // of a cell, in pixels
const MOST_SHRUNK = 0.25; // of the width of columns of text
const LEAST = 40; // pixels, of a shrunk column
const NARROWER = 0.92; // letters of text, beside digits
export const UNITS = 24; // of the width of a line
const SHORT = 13; // characters
const PART = 0.8; // of what the longest values need: most are shorter

/** How many characters each column needs, from its name and the texts in it. */
export function needsOf(columns, texts) {
  return columns.map((column, at) => {
    const longest = texts.reduce((most, row) => Math.max(most, row[at].length), 0);
    return Math.min(Math.max(longest, column.name.length + 1, 4), isText(column) ? 26 : 18);
  });
}

/** Widths in pixels, side by side; texts are shortened a little rather than that the last column is beyond the window. */
export function widthsOf(columns, needs, letter, room) {
  const wanted = needs.map((need, at) => need * letter * (isText(columns[at]) ? NARROWER : 1) + PADDING);
  const sum = wanted.reduce((a, b) => a + b, 0);
  const texts = wanted.reduce((total, width, at) => total + (isText(columns[at]) ? width : 0), 0);
  const spare = room - sum;
  const grown = wanted.map((width, at) => {
    if (spare >= 0) return width + (spare * width) / sum;
    if (-spare < MOST_SHRUNK * texts && isText(columns[at])) return Math.max(width + (spare * width) / texts, LEAST);
    return width;
  });
  return grown.map(Math.floor);
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
