/**
 * The rows of a table that are in sight: elements that are filled anew rather than made anew, as all of them change at each
 * movement of a scroll bar. A row that stays in sight keeps its element.
 */

import { colourOfApi } from "./colours.js";
import { isRight } from "./columns.js";
import { visible } from "./text.js";

export class TableRows {
  /** `text(value, column)` is what a cell shows. */
  constructor(place, text) {
    this.place = place;
    this.text = text;
    this.columns = [];
    this.rows = []; // {line, cells, at, found, here}
  }

  setColumns(columns) {
    this.columns = columns;
    this.clear();
  }

  clear() {
    this.rows = [];
    this.place.replaceChildren();
  }

  /** Show the places from..to-1: `found(at)` is {number, row}, null of what is not there yet; `isEdited(row)`; `marks` says what is chosen. */
  draw(from, to, shift, found, isEdited, marks) {
    this.isEdited = isEdited;
    this.keep(from, to);
    while (this.rows.length < to - from) this.rows.push(this.made());
    while (this.rows.length > to - from) this.rows.pop().line.remove();
    this.rows.forEach((row, index) => this.fill(row, from + index, found(from + index), marks));
    this.place.style.setProperty("--shift", `${-shift}px`);
  }

  /** After a small movement: the elements of rows that are in sight no more come to the other end. */
  keep(from) {
    const by = this.rows.length ? from - this.rows[0].at : 0;
    if (Math.abs(by) >= this.rows.length) return;
    for (let left = by; left > 0; left -= 1) {
      this.rows.push(this.rows.shift());
      this.place.append(this.rows.at(-1).line);
    }
    for (let left = by; left < 0; left += 1) {
      this.rows.unshift(this.rows.pop());
      this.place.prepend(this.rows[0].line);
    }
  }

  made() {
    const line = document.createElement("div");
    line.className = "row";
    line.role = "row";
    const cells = this.columns.map((column, index) => {
      const cell = document.createElement("span");
      cell.role = "gridcell";
      cell.setAttribute("aria-colindex", index + 1);
      cell.dataset.column = index;
      if (isRight(column)) cell.className = "number";
      else if (column.name === "apiName") cell.className = "api";
      const text = document.createElement("bdi");
      cell.append(text);
      line.append(cell);
      return { cell, text: text.appendChild(document.createTextNode("")) };
    });
    this.place.append(line);
    return { line, cells, at: -1, row: null, here: -1 };
  }

  fill(row, at, found, { chosen, column, marked }) {
    const { line } = row;
    if (row.at !== at) {
      row.at = at;
      line.dataset.at = at;
      line.id = `row-${at}`;
      line.setAttribute("aria-rowindex", at + 2);
    }
    if (row.row !== found?.row || found === null) this.write(row, found);
    const selected = String(at === chosen);
    if (line.getAttribute("aria-selected") !== selected) line.setAttribute("aria-selected", selected);
    line.classList.toggle("marked", found !== null && found.number === marked);
    const here = at === chosen ? column : -1;
    if (row.here === here) return;
    row.cells[row.here]?.cell.classList.remove("cell-here");
    row.cells[here]?.cell.classList.add("cell-here");
    row.here = here;
  }

  write(row, found) {
    const { line, cells } = row;
    row.row = found?.row ?? null;
    line.classList.toggle("waiting", found === null);
    found === null ? delete line.dataset.number : (line.dataset.number = found.number);
    line.classList.toggle("failed", found !== null && this.columns.some(({ name }, index) => name === "errorName" && found.row[index]));
    const edited = found !== null && this.isEdited(found.row);
    line.classList.toggle("edited", edited);
    edited ? line.setAttribute("aria-description", "edited at a breakpoint") : line.removeAttribute("aria-description");
    cells.forEach(({ cell, text }, index) => {
      if (this.columns[index].name === "apiName" && found !== null) cell.className = `api ${colourOfApi(found.row[index] ?? "")}${row.here === index ? " cell-here" : ""}`;
      const shown = found === null ? (index ? "" : "…") : visible(this.text(found.row[index], this.columns[index]));
      if (text.data !== shown) text.data = shown;
    });
  }
}
