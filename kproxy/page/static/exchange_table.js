/** The table of exchanges: any number of rows. One row is chosen, and one cell of it. */

import { colourOfApi } from "./charts.js";
import { inLines, isPhone, isRight, needsOf, sideBySide, wordsOf } from "./columns.js";
import { cellText, milliseconds, timeOfDay, visible } from "./text.js";
import { Windowed } from "./windowed.js";
import { html, nothing, render } from "./lit-html.js";

const ROW = 24;
const HEAD = 40;
const SAMPLE = 100; // rows from which the widths of columns are measured

export class ExchangeTable {
  /**
   * `scroller` is an empty element, `rows` the Rows to show. The table calls, of `doings`: `look(focus)` to open the chosen exchange,
   * `leave()` to close it, `chosen()` after another row was chosen, `moved()` when the user moves through the rows, `menu({x, y})` for
   * the chosen cell, `write(which, column)` for a condition, `sortBy(name)`, `undo(event)`.
   */
  constructor(scroller, rows, doings) {
    Object.assign(this, { scroller, rows, doings });
    this.columns = [];
    this.row = 0; // index of the chosen row among those of the filter
    this.column = 0;
    this.marked = null; // number of the exchange to compare with
    this.empty = ""; // text for a table without rows
    this.needs = null; // characters that each column needs, once there are rows
    this.sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(this.sheet);
    render(
      html`<span class="letter hidden" aria-hidden="true">0000000000</span><div class="head row" role="row"></div>
        <div class="pane" role="rowgroup"><div class="shift" role="presentation"></div></div><div class="row-empty empty" role="row" hidden><span role="gridcell"></span></div><div class="space" role="presentation"></div>`,
      scroller,
    );
    this.letter = scroller.querySelector(".letter");
    this.head = scroller.querySelector(".head");
    this.nothing = scroller.querySelector(".row-empty");
    this.lines = scroller.querySelector(".shift");
    const [pane, space] = [".pane", ".space"].map((name) => scroller.querySelector(name));
    this.list = new Windowed({ scroller, pane, space, rowHeight: ROW, headHeight: HEAD, draw: (from, to, shift) => this.draw(from, to, shift) });
    scroller.addEventListener("keydown", (event) => this.pressed(event));
    scroller.addEventListener("click", (event) => this.clicked(event));
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && doings.moved(), { passive: true });
    for (const name of ["pointerdown", "touchmove"]) scroller.addEventListener(name, () => doings.moved(), { passive: true });
    scroller.addEventListener("contextmenu", (event) => this.menu(event));
    this.sizes = new ResizeObserver(() => this.needs && this.measureAnew());
    this.sizes.observe(scroller);
  }

  /** Show these columns, and the sort in their headings. Widths are measured when rows come. */
  setColumns(columns, sort) {
    this.needs = null;
    if (columns !== this.columns) {
      this.columns = columns;
      this.column = Math.min(this.column, columns.length - 1);
      this.scroller.setAttribute("aria-colcount", columns.length);
    }
    this.drawHead(sort);
  }

  drawHead(sort) {
    const direction = sort.startsWith("-") ? "descending" : "ascending";
    const sorted = sort.replace(/^-/, "");
    render(
      html`${this.columns.map((column, at) => html`<span role="columnheader" class=${isRight(column) ? "number" : ""}
        aria-sort=${column.name === sorted ? direction : "none"} aria-colindex=${at + 1}>
        <button title="${column.name}: ${column.meaning ?? ""}${column.unit ? `, ${column.unit}` : ""}${column.type === "time" ? ", UTC" : ""}" tabindex="-1" @click=${() => this.doings.sortBy(column.name)}
          >${wordsOf(column.name).map((word, index) => html`${index ? html`<wbr>` : nothing}${word}`)}${column.name === sorted ? (direction === "ascending" ? " ▴" : " ▾") : nothing}</button></span>`)}`,
      this.head,
    );
  }

  /** Rows came, or the server refused; `empty` is the text if there is no row. */
  changed(empty) {
    this.empty = empty;
    this.stay();
    this.list.setTotal(this.rows.total);
    if (this.rows.known || empty) this.measure();
  }

  /** Keep the same rows in sight after older exchanges have left, as that shifts the index of every row. */
  stay() {
    const by = this.rows.left - (this.left ?? 0);
    this.left = this.rows.left;
    if (by <= 0 || this.rows.question.filter || this.rows.question.sort) return;
    this.row = Math.max(this.row - by, 0);
    this.list.first = Math.max(this.list.first - by, 0);
    this.list.align();
  }

  /** Measure the first rows and those in sight. Columns only grow, so that nothing jumps while the user scrolls. */
  measure() {
    const [from, to] = this.rows.seen;
    const places = [...(this.needs === null ? Array(Math.min(this.rows.total, SAMPLE)).keys() : []), ...Array(to - from).keys().map((at) => from + at)];
    const some = places.map((at) => this.rows.at(at)).filter(Boolean);
    const needs = needsOf(this.columns, some.map(({ row }) => this.columns.map((column, at) => textOf(row[at], column))));
    const most = needs.map((need, at) => Math.max(need, this.needs?.[at] ?? 0));
    if (String(most) === String(this.needs)) return;
    this.needs = most;
    this.size();
  }

  measureAnew() {
    this.needs = null;
    this.measure();
  }

  /** Fit the columns into the window. */
  size() {
    if (this.needs === null) return;
    const letter = this.letter.getBoundingClientRect().width / 10;
    const folds = isPhone() && this.scroller.clientWidth > 0;
    const sizes = folds ? inLines(this.needs, letter) : sideBySide(this.columns, this.needs, letter);
    const rules = sizes.map(({ grow, shrink, basis, least }, at) => `.table .row > :nth-child(${at + 1}) { flex: ${grow} ${shrink} ${basis}px; min-width: ${least}px; }`);
    this.sheet.replaceSync(rules.join("\n"));
    this.scroller.classList.toggle("folded", folds);
    this.scroller.style.setProperty("--wide", `${sizes.reduce((sum, { least }) => sum + least, 0)}px`);
    const height = this.head.offsetHeight; // of all its lines
    this.scroller.style.setProperty("--head", `${height}px`);
    this.list.setHeights(folds ? height : ROW, height);
    this.list.schedule();
  }

  draw(from, to, shift) {
    this.rows.want(from, to);
    this.scroller.setAttribute("aria-rowcount", this.rows.total + 1);
    this.nothing.hidden = this.rows.total > 0 || this.empty === "";
    if (!this.nothing.hidden) this.nothing.firstElementChild.textContent = this.empty;
    render(Array.from({ length: to - from }, (_, at) => this.line(from + at)), this.lines);
    this.lines.style.setProperty("--shift", `${-shift}px`);
    const shown = this.row >= from && this.row < to;
    shown ? this.scroller.setAttribute("aria-activedescendant", `row-${this.row}`) : this.scroller.removeAttribute("aria-activedescendant");
  }

  /** Draw a row; an empty one until the server has sent it. */
  line(at) {
    const found = this.rows.at(at);
    const { number = null, row = [] } = found ?? {};
    const fails = this.columns.some(({ name }, index) => name === "errorName" && row[index]);
    const edits = row[this.rows.question.columns.split(",").indexOf("edited")] ?? [];
    const marks = { waiting: found === null, failed: fails, edited: edits.length > 0, marked: found !== null && number === this.marked };
    return html`<div class="row ${namesOf(marks)}" role="row" id="row-${at}" data-at=${at} data-number=${number ?? nothing} aria-rowindex=${at + 2}
      aria-selected=${String(at === this.row)} aria-description=${edits.length ? edits.join(", ") : nothing} title=${edits.length ? edits.join(", ") : nothing}>${this.columns.map((column, index) => this.cell(column, index, found, at))}</div>`;
  }

  cell(column, index, found, at) {
    const kind = isRight(column) ? "number" : column.name === "apiName" ? `api ${found === null ? "" : colourOfApi(found.row[index] ?? "")}` : "";
    const text = found === null ? (index ? "" : "…") : visible(textOf(found.row[index], column));
    return html`<span role="gridcell" class="${kind} ${namesOf({ "cell-here": at === this.row && index === this.column })}" aria-colindex=${index + 1} data-column=${index}><bdi>${text}</bdi></span>`;
  }

  pressed(event) {
    if (event.target.closest("button")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return this.doings.undo(event);
    const page = Math.max(Math.floor(this.list.capacity) - 1, 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const name = this.columns[this.column].name;
    const doings = {
      Enter: () => this.doings.look(), ArrowLeft: () => this.across(-1), ArrowRight: () => this.across(1), Escape: () => this.doings.leave(),
      s: () => this.doings.sortBy(name), o: () => this.doings.write("only", name), x: () => this.doings.write("not", name),
      m: () => this.menuOfChosen(),
    };
    if (event.key in moves) {
      this.doings.moved();
      this.choose(this.row + moves[event.key]);
    } else if (event.key in doings) doings[event.key]();
    else return;
    event.preventDefault();
  }

  across(by) {
    this.column = Math.min(Math.max(this.column + by, 0), this.columns.length - 1);
    this.list.now();
    this.scroller.querySelector(".cell-here")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.list.align();
  }

  choose(row) {
    if (!this.rows.total) return;
    this.row = Math.min(Math.max(row, 0), this.rows.total - 1);
    this.list.reveal(this.row);
    this.doings.chosen();
  }

  /** Scroll to a row and choose it. */
  goTo(row) {
    this.row = row;
    this.list.scrollTo(row - Math.floor(this.list.capacity / 3));
    this.list.now(); // this requests its rows at once
  }

  clicked(event) {
    if (!this.point(event)) return;
    this.choose(this.row);
    this.doings.look(isPhone());
  }

  /** Choose the cell under the pointer. Returns whether there is one. */
  point(event) {
    const line = event.target.closest(".pane [data-at]");
    if (!line) return false;
    this.row = Number(line.dataset.at);
    const cell = event.target.closest("[data-column]");
    if (cell) this.column = Number(cell.dataset.column);
    return true;
  }

  menu(event) {
    const byPointer = this.point(event);
    if (!byPointer && event.target !== this.scroller) return;
    event.preventDefault();
    if (!byPointer) return this.menuOfChosen(); // opened by the keyboard's menu key
    this.choose(this.row);
    this.doings.menu({ x: event.clientX, y: event.clientY });
  }

  menuOfChosen() {
    this.list.reveal(this.row);
    this.list.now();
    const box = this.scroller.querySelector(".cell-here")?.getBoundingClientRect();
    if (box) this.doings.menu({ x: box.left, y: box.bottom });
  }

  /** The chosen row as {number, row}; null until the server has sent it. */
  get found() {
    return this.rows.at(this.row);
  }

  /** Return a value of the chosen row; undefined if the table does not have that column. */
  valueOf(name) {
    return this.found?.row[this.columns.findIndex((one) => one.name === name)];
  }

  close() {
    this.sizes.disconnect();
    this.list.close();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== this.sheet);
  }
}

/** Return what a cell shows: for times the time of day, for latencies always three decimals. */
function textOf(value, column) {
  if (column.type === "number" && typeof value === "number") return milliseconds(value);
  if (column.type === "time" && value !== null && value !== undefined) return timeOfDay(cellText(value, column)).slice(0, isPhone() ? 8 : 15);
  return cellText(value, column);
}

/** Return the names of classes whose value is true. */
const namesOf = (classes) => Object.keys(classes).filter((name) => classes[name]).join(" ");
