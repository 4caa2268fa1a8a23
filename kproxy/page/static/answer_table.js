/** Parts that views of answers share: a table that sorts by a click, and the notes and marks about missing exchanges. */

import { cellText, count, counted, decimalsOf, headOf, isMeasure, isNumber, sentence, visible } from "./text.js";
import { html, nothing, svg } from "./lit-html.js";

const FIRST_COLUMNS = 10;
const LONGEST = 160; // characters of a cell
const NAMES = /(id|name|topic|group|client|principal)$/; // columns whose cells are one name; others are words, perhaps with names in them

/** Rows as objects by column. */
export const objects = (answer) => answer.rows.map((row) => Object.fromEntries(answer.columns.map((column, at) => [column.name, row[at]])));

/**
 * Return the table of an answer. `state` keeps what the user chose: {sort, descending, all, chosen}; `redraw()` is called when it
 * changes. With `chooses(row)`, rows can be clicked. `links(row as an object, its index)` gives the links before a row as
 * {text, href}. `columns` names the columns shown first; the others appear on request.
 */
export function answerTable(answer, { label, state = {}, redraw = () => {}, chooses = null, columns = null, links = null }) {
  const every = answer.columns.map((column, at) => {
    const values = answer.rows.map((row) => row[at]);
    return { ...column, at, decimals: decimalsOf(values), isRight: headOf(column) === column.name && values.some(isNumber) };
  });
  const filled = every.filter((column) => answer.rows.some((row) => !isEmpty(row[column.at])));
  const first = columns ? columns.map((name) => filled.find((one) => one.name === name)).filter(Boolean) : filled.slice(0, FIRST_COLUMNS);
  const shown = state.all ? [...first, ...filled.filter((one) => !first.includes(one))] : first;
  const rows = sorted(answer.rows, every, state);
  const sortBy = (column) => {
    const { name } = column;
    const largestFirst = isMeasure(column) && answer.rows.some((row) => isNumber(row[column.at]));
    state.descending = state.sort === name ? !state.descending : largestFirst;
    state.sort = name;
    redraw();
  };
  if (!answer.rows.length) return html`<p class="muted">No rows.</p>`;
  return html`<div class="rows" tabindex="0" role="region" aria-label=${label}><table>
      <thead><tr>${links ? html`<td class="links"></td>` : nothing}${shown.map((column) => html`<th scope="col" class=${column.isRight ? "number" : ""} title=${column.meaning ?? ""}
        aria-sort=${state.sort === column.name ? (state.descending ? "descending" : "ascending") : "none"}
        ><button @click=${() => sortBy(column)}>${visible(headOf(column))}${unitOf(column)}${state.sort === column.name ? (state.descending ? " ▾" : " ▴") : ""}</button></th>`)}</tr></thead>
      <tbody>${rows.map((row) => line(row, shown, state, chooses, links && links(objectOf(row, every), answer.rows.indexOf(row))))}</tbody>
    </table></div>
    ${answer.more ? html`<p class="note">and ${counted(answer.more, "more row")}</p>` : nothing}
    ${filled.length > first.length ? html`<button class="plain" @click=${() => { state.all = !state.all; redraw(); }}>${state.all ? "Fewer columns" : `All ${filled.length} columns`}</button>` : nothing}`;
}

const objectOf = (row, columns) => Object.fromEntries(columns.map((column) => [column.name, row[column.at]]));

function line(row, columns, state, chooses, links) {
  const before = links && html`<td class="links short">${links.map((one) => html`<a href=${one.href}>${one.text}</a> `)}</td>`;
  const cells = columns.map((column, at) => {
    const value = row[column.at];
    const text = cellText(value, column);
    const shown = text === "" ? html`<span class="none">${value === "" ? "empty" : ""}</span>` : html`<span title=${text.length > LONGEST ? visible(text, 2000) : nothing}>${NAMES.test(column.name) ? html`<bdi>${visible(text, LONGEST)}</bdi>` : sentence(text, LONGEST)}</span>`;
    const kind = column.isRight ? "number" : text.length < 32 ? "short" : "long";
    return html`<td class=${kind}>${chooses && at === 0 ? html`<button class="plain" @click=${(event) => { event.stopPropagation(); chooses(row); }}>${shown}</button>` : shown}</td>`;
  });
  if (!chooses) return html`<tr>${before ?? nothing}${cells}</tr>`;
  return html`<tr class="choosable ${state.chosen === row ? "chosen" : ""}" @click=${() => chooses(row)}>${before ?? nothing}${cells}</tr>`;
}

/** Return the unit of a column in brackets, unless the column's name ends with it. */
const unitOf = ({ name, unit }) => (unit && headOf({ name }) === name && !name.endsWith(unit) ? ` (${unit})` : "");

const isEmpty = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

function sorted(rows, columns, state) {
  const column = columns.find((one) => one.name === state.sort);
  if (!column) return rows;
  const by = state.descending ? -1 : 1;
  const compare = (a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true }));
  return [...rows].sort((a, b) => by * compare(a[column.at], b[column.at]));
}

/** Say what is missing and what to do, from the first of these answers that lacks exchanges. */
export function leftOutNote(...answers) {
  const { said, advice } = answers.find((answer) => answer?.leftOut)?.leftOut ?? {};
  if (!said) return nothing;
  return html`<p class="left-out" role="note"><span class="warning">${visible(said, 1000)}</span> ${visible(advice, 1000)}</p>`;
}

/** Say why rows of an answer may be wrong, if exchanges are missing. */
export function uncertainNote(answer) {
  if (!answer?.uncertain || !answer.rows.length) return nothing;
  return html`<p class="left-out" role="note"><span class="warning">Not certain.</span> ${visible(answer.uncertain, 1000)}</p>`;
}

/** Mark times with missing exchanges. `ends` are the limits of the buckets, one more than answer.leftOutBy has. */
export function missingMarks(answer, scale, ends, height) {
  const some = (answer.leftOutBy ?? []).map((number, at) => ({ number, from: ends[at], to: ends[at + 1] })).filter((one) => one.number);
  const unseen = (answer.leftOut?.unseen ?? []).map((one) => ({ number: null, from: BigInt(one.fromNs), to: BigInt(one.toNs) }));
  return svg`${[...some, ...unseen].map(({ number, from, to }) => {
    if (to < scale.fromNs || from > scale.toNs) return nothing;
    const left = scale.x(from < scale.fromNs ? scale.fromNs : from);
    const right = scale.x(to > scale.toNs ? scale.toNs : to);
    const text = number === null ? "Nothing is known of this time" : `${counted(number, "exchange")} ${number === 1 ? "is" : "are"} not here`;
    return svg`<rect class="missing" data-missing=${number ?? "all"} x=${left.toFixed(1)} y="0" width=${Math.max(right - left, 2).toFixed(1)} height=${height}><title>${text}</title></rect>`;
  })}`;
}

/** Return the missing exchanges as a series for stackedBars; [] if none is missing. */
export function missingSeries(answer) {
  const values = answer.leftOutBy ?? [];
  return values.some(Boolean) ? [{ name: "not here", values, colour: "missing" }] : [];
}

/** Return how many exchanges are missing from an answer's charts, as text; null if none is. */
export function missingSum(answer) {
  const sum = (answer.leftOutBy ?? []).reduce((a, b) => a + b, 0);
  return sum ? count(sum) : null;
}
