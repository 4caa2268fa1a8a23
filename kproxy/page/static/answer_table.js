/** The rows of an analysis as a table that sorts by a click on a column. */

import { cellText, counted, decimalsOf, headOf, isMeasure, isNumber, sentence, visible } from "./text.js";
import { html, nothing } from "./lit-html.js";

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
    const kind = column.isRight ? "number" : text.length < 32 ? "short" : "";
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
