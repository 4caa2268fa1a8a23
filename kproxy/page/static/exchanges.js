/** Exchanges: the table of all that a filter lets through, and one of them below it. */

import { get } from "./api.js";
import { ask, say } from "./asking.js";
import { compare } from "./compare.js";
import { conditionsOf, fromHost, stopConditions } from "./conditions.js";
import { Detail } from "./detail.js";
import { exportMenu } from "./export.js";
import { FilterLine } from "./filter_line.js";
import { go, note } from "./route.js";
import { Rows } from "./rows.js";
import { Windowed } from "./windowed.js";
import { cellText, count, counted, timeOfDay, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const ROW = 24;
const HEAD = 28;
const PADDING = 13; // of a cell, in pixels
const MOST_SHRUNK = 0.25; // of the width of columns of text
const NARROW = ["requestAt", "apiName", "clientId", "latencyMs"]; // columns on a phone
const KEPT = "kproxy columns";

export const KEYS = [
  ["/", "write a filter"],
  ["↓ ↑ j k", "next and previous exchange"],
  ["PgDn PgUp Home End", "further"],
  ["← →", "choose a column"],
  ["Enter", "look into the exchange: fields and bytes"],
  ["Esc", "leave it"],
  ["o x", "only exchanges with this value in this column; without it"],
  ["h", "only this client's host"],
  ["s", "sort by this column"],
  ["c", "compare with another exchange: mark one, then the other"],
  ["v", "choose columns"],
  ["f p", "follow new exchanges; pause"],
  ["e", "export what is shown"],
  ["b", "write a breakpoint for this API and client, where the page may set some"],
];

export class Exchanges {
  constructor(place, source) {
    this.place = place;
    this.source = source;
    this.names = new Set(source.names.map((one) => one.name));
    this.filter = "";
    this.sort = "";
    this.columns = this.keptColumns();
    this.row = 0; // the chosen place, in the filter's answer
    this.column = 0;
    this.open = null; // number of the exchange in the detail
    this.marked = null; // number of the exchange to compare with
    this.following = false;
    this.paused = false;
    this.problem = null;
    this.rows = new Rows((problem) => this.rowsChanged(problem));
    this.lay();
  }

  keptColumns() {
    const all = this.source.columns;
    const shown = all.filter((one) => one.shown);
    const kept = (localStorage.getItem(KEPT) ?? "").split(",").filter((name) => all.some((one) => one.name === name));
    if (kept.length) return kept.map((name) => all.find((one) => one.name === name));
    if (isPhone()) {
      const narrow = NARROW.map((name) => all.find((one) => one.name === name)).filter(Boolean);
      if (narrow.length) return narrow;
    }
    return shown.length ? shown : all.slice(0, 8);
  }

  lay() {
    render(
      html`<div class="exchanges">
        <div class="controls"></div>
        <div class="split">
          <span class="letter hidden" aria-hidden="true">0000000000</span>
          <div class="table scroller" role="grid" tabindex="0" aria-label="Exchanges" aria-multiselectable="false" @keydown=${(event) => this.pressed(event)}>
            <div class="head row" role="row"></div>
            <div class="pane" role="rowgroup"></div><div class="space" role="presentation"></div>
          </div>
          <section class="detail" aria-label="Exchange" hidden @keydown=${(event) => this.pressedInDetail(event)}></section>
        </div>
      </div>`,
      this.place,
    );
    this.scroller = this.place.querySelector(".scroller");
    this.scroller.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("dblclick", () => this.look());
    this.scroller.addEventListener("contextmenu", (event) => this.menu(event));
    this.head = this.place.querySelector(".head");
    this.detailPlace = this.place.querySelector(".detail");
    this.detail = new Detail(this.detailPlace, {
      close: () => this.leave(),
      step: (by) => this.step(by),
      only: (name) => this.write("only", name),
      not: (name) => this.write("not", name),
      mark: () => this.mark(),
      stop: this.source.editable ? () => this.stopSuch() : null,
    });
    this.list = new Windowed({
      scroller: this.scroller,
      pane: this.place.querySelector(".table .pane"),
      space: this.place.querySelector(".table .space"),
      rowHeight: ROW,
      headHeight: HEAD,
      draw: (from, to, shift) => this.draw(from, to, shift),
    });
    render(html`<div class="filter"></div><div class="bar"></div>`, this.place.querySelector(".controls"));
    this.sizes = new ResizeObserver(() => this.size());
    this.sizes.observe(this.scroller);
    this.line = new FilterLine(this.place.querySelector(".filter"), (filter) => this.apply({ filter }));
    this.place.querySelector(".filter").addEventListener("leave", () => this.scroller.focus());
    this.bar = this.place.querySelector(".controls .bar");
  }

  /** Take the parameters of the URL. */
  async enter({ filter = "", sort = "", at = "" }) {
    this.filter = filter;
    this.sort = sort;
    this.line.set(filter);
    this.drawBar();
    this.drawHead();
    await this.ask();
    if (this.problem) await this.line.check();
    if (/^\d+$/.test(at)) await this.goTo(Number(at));
    else if (document.activeElement === document.body) this.scroller.focus();
  }

  ask() {
    this.measured = false;
    return this.rows.ask({ filter: this.filter, sort: this.sort, columns: this.columns.map((one) => one.name).join(",") });
  }

  async apply(changes) {
    Object.assign(this, changes);
    note({ filter: this.filter, sort: this.sort });
    this.drawBar();
    this.drawHead();
    this.row = 0;
    await this.ask();
    this.list.scrollTo(0);
    if (this.open !== null) await this.keepPlace(this.open);
  }

  /** After another filter or sort: choose the open exchange where it stands now. */
  async keepPlace(number) {
    const { offset } = await get("position", { number, filter: this.filter, sort: this.sort });
    if (offset === null) return;
    this.row = offset;
    this.list.reveal(offset);
  }

  async goTo(number) {
    try {
      const { offset } = await get("position", { number, filter: this.filter, sort: this.sort });
      if (offset !== null) {
        this.row = offset;
        this.list.scrollTo(offset - Math.floor(this.list.capacity / 3));
      }
      await this.show(number);
    } catch (error) {
      say(error.message);
    }
  }

  rowsChanged(problem) {
    this.problem = problem;
    if (problem && problem.column === null) say(problem.message);
    this.list.setTotal(this.rows.total);
    if (this.following && !this.paused) this.list.scrollTo(this.rows.total);
    if (!this.measured && (problem || this.rows.at(0) || (this.rows.known && !this.rows.total))) this.measure();
    this.drawBar();
  }

  /** New exchanges came (or the oldest left), says the server. */
  renewed(news) {
    if (this.paused) {
      this.missed = news;
      return;
    }
    const moved = this.sort !== "" || news.left !== this.source.left;
    this.source = { ...this.source, ...news };
    if (news.generation === this.rows.generation) return;
    this.rows.renew(this.following ? Math.max(this.rows.total - 1, 0) : Math.floor(this.list.first), moved);
  }

  /** How many characters each column needs, from the first rows. */
  measure() {
    this.measured = true;
    const sample = Array.from({ length: Math.min(this.rows.total, 200) }, (_, at) => this.rows.at(at)).filter(Boolean);
    this.needs = this.columns.map((column, at) => {
      const longest = Math.max(...sample.map(({ row }) => this.text(row[at], column).length), 0);
      return Math.min(Math.max(longest, column.name.length + 1, 4), column.type === "texts" || column.type === "text" ? 26 : 18);
    });
    this.size();
  }

  /** Give the columns the width that there is; on a phone all of them share it. */
  size() {
    if (!this.measured) return;
    const narrow = isPhone() && this.columns.length <= 5;
    const letter = this.place.querySelector(".letter").getBoundingClientRect().width / 10;
    const wanted = this.needs.map((need, at) => need * letter * (isText(this.columns[at]) ? 0.92 : 1) + PADDING);
    const room = this.scroller.clientWidth;
    const sum = wanted.reduce((a, b) => a + b, 0);
    const texts = wanted.reduce((total, width, at) => total + (isText(this.columns[at]) ? width : 0), 0);
    const spare = room - sum;
    const grown = wanted.map((width, at) => {
      if (spare >= 0) return width + (spare * width) / sum;
      const shrinks = narrow || -spare < MOST_SHRUNK * texts; // rather than to have the last column beyond the window
      if (shrinks && isText(this.columns[at])) return Math.max(width + (spare * width) / texts, 40);
      return width;
    });
    this.scroller.style.setProperty("--columns", grown.map((width) => `${Math.floor(width)}px`).join(" "));
    this.list.ask();
  }

  text(value, column) {
    if (column.type === "time" && value !== null) return timeOfDay(cellText(value, column)).slice(0, isPhone() ? 8 : 15);
    return cellText(value, column);
  }

  drawHead() {
    const direction = this.sort.startsWith("-") ? "descending" : "ascending";
    const sorted = this.sort.replace(/^-/, "");
    render(
      html`${this.columns.map((column, at) => html`<span role="columnheader" class=${isRight(column) ? "number" : ""}
        aria-sort=${column.name === sorted ? direction : "none"} aria-colindex=${at + 1}>
        <button title="${column.name}: ${column.meaning ?? ""}${column.unit ? `, ${column.unit}` : ""}" tabindex="-1" @click=${() => this.sortBy(column.name)}
          >${column.name}${column.name === sorted ? (direction === "ascending" ? " ▴" : " ▾") : ""}</button></span>`)}`,
      this.head,
    );
    this.scroller.setAttribute("aria-colcount", this.columns.length);
  }

  sortBy(name) {
    const next = this.sort === name ? `-${name}` : this.sort === `-${name}` ? "" : name;
    this.apply({ sort: next });
  }

  drawBar() {
    const { total, known } = this.rows;
    const of = this.filter && this.source.exchanges ? html` <span class="muted">of ${count(this.source.exchanges)}</span>` : nothing;
    const live = this.source.live || this.source.loading;
    render(
      html`<span class="total" aria-live="polite">${known ? html`${counted(total, "exchange")}${of}` : "…"}</span>
        ${this.filter ? html`<button @click=${() => { this.line.set(""); this.apply({ filter: "" }); }}>Clear filter</button>` : nothing}
        <button @click=${() => { this.line.add('apiName != "Heartbeat"'); }}>Not Heartbeat</button>
        <button @click=${() => { this.line.add("size(errors) > 0"); }}>Errors</button>
        ${live ? html`<button aria-pressed=${String(this.following)} @click=${() => this.follow()}>Follow</button>
          <button aria-pressed=${String(this.paused)} @click=${() => this.pause()}>${this.paused ? "Resume" : "Pause"}</button>` : nothing}
        <button @click=${() => this.chooseColumns()}>Columns</button>
        <button @click=${() => this.export()}>Export</button>
        ${this.marked !== null ? html`<button @click=${() => { this.marked = null; this.drawBar(); this.list.ask(); }}>Compare with #${this.marked} ✕</button>` : nothing}`,
      this.bar,
    );
  }

  draw(from, to, shift) {
    this.rows.want(from, to);
    this.scroller.setAttribute("aria-rowcount", this.rows.total + 1);
    const rows = [];
    for (let at = from; at < to; at += 1) rows.push(this.rowOf(at));
    const empty = (this.rows.known || this.problem) && this.rows.total === 0;
    render(
      empty
        ? html`<div class="row-empty empty" role="row"><span role="gridcell">${this.problem ? "The filter has a mistake." : this.filter ? "No exchange matches the filter." : "There is no exchange yet."}</span></div>`
        : html`<div class="shift" role="presentation">${rows}</div>`,
      this.list.pane,
    );
    this.list.pane.firstElementChild?.style.setProperty("--shift", `${-shift}px`);
    const shown = !empty && this.row >= from && this.row < to;
    shown ? this.scroller.setAttribute("aria-activedescendant", `row-${this.row}`) : this.scroller.removeAttribute("aria-activedescendant");
  }

  rowOf(at) {
    const found = this.rows.at(at);
    const chosen = at === this.row;
    if (!found) return html`<div class="row waiting" role="row" id="row-${at}" data-at=${at} aria-rowindex=${at + 2} aria-selected=${String(chosen)}><span role="gridcell">…</span></div>`;
    const failed = this.columns.some((column, index) => column.name === "errorName" && found.row[index]);
    return html`<div class="row ${failed ? "failed" : ""} ${found.number === this.marked ? "marked" : ""}" role="row" id="row-${at}" data-at=${at}
      data-number=${found.number} aria-rowindex=${at + 2} aria-selected=${String(chosen)}>${this.columns.map((column, index) => this.cell(found.row[index], column, index, chosen))}</div>`;
  }

  cell(value, column, index, chosen) {
    const text = visible(this.text(value, column));
    return html`<span role="gridcell" aria-colindex=${index + 1} data-column=${index} class="${isRight(column) ? "number" : ""} ${chosen && index === this.column ? "cell-here" : ""}"
      >${text === "" ? nothing : html`<bdi>${text}</bdi>`}</span>`;
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button")) return;
    const page = Math.max(Math.floor(this.list.capacity) - 1, 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const doings = {
      Enter: () => this.look(), ArrowLeft: () => this.across(-1), ArrowRight: () => this.across(1), Escape: () => this.leave(),
      s: () => this.sortBy(this.columns[this.column].name),
      o: () => this.write("only", this.columns[this.column].name), x: () => this.write("not", this.columns[this.column].name),
    };
    if (event.key in moves) this.choose(this.row + moves[event.key]);
    else if (event.key in doings) doings[event.key]();
    else return;
    event.preventDefault();
  }

  /** Keys of the whole view; true where one was meant. */
  key(event) {
    const doings = {
      "/": () => this.line.focus(), f: () => this.follow(), p: () => this.pause(), v: () => this.chooseColumns(), e: () => this.export(),
      c: () => this.mark(), h: () => this.onlyHost(), b: () => this.stopSuch(),
    };
    doings[event.key]?.();
    return event.key in doings;
  }

  pressedInDetail(event) {
    if (event.key === "Escape") this.leave();
    else if (event.key === "]" || event.key === "[") this.step(event.key === "]" ? 1 : -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  across(by) {
    this.column = Math.min(Math.max(this.column + by, 0), this.columns.length - 1);
    this.list.now();
    this.list.pane.querySelector(".cell-here")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.list.align();
  }

  choose(row) {
    if (!this.rows.total) return;
    this.row = Math.min(Math.max(row, 0), this.rows.total - 1);
    this.list.reveal(this.row);
    if (this.open !== null) this.look(false);
  }

  clicked(event) {
    const line = event.target.closest(".pane [data-at]");
    if (!line) return;
    const cell = event.target.closest("[data-column]");
    if (cell) this.column = Number(cell.dataset.column);
    this.choose(Number(line.dataset.at));
    if (isPhone()) this.look();
  }

  /** Show the chosen exchange below the table. */
  look(focus = true) {
    const found = this.rows.at(this.row);
    if (found) return this.show(found.number, focus);
    return this.numberAt(this.row).then((number) => (number === undefined ? undefined : this.show(number, focus)));
  }

  async numberAt(row) {
    const { numbers } = await get("exchanges", { filter: this.filter, sort: this.sort, offset: row, limit: 1, columns: this.columns[0].name });
    return numbers[0];
  }

  async show(number, focus = true) {
    try {
      const exchange = await get(`exchanges/${number}`);
      this.open = number;
      note({ at: number });
      this.detailPlace.hidden = false;
      this.detail.show(exchange);
      this.list.reveal(this.row);
      if (focus) this.detailPlace.querySelector("[role=tab][aria-selected=true]")?.focus();
    } catch (error) {
      say(error.message);
    }
  }

  leave() {
    this.detailPlace.hidden = true;
    this.detail.close();
    this.open = null;
    note({ at: null });
    this.scroller.focus();
    this.list.ask();
  }

  step(by) {
    const focused = document.activeElement?.getAttribute("aria-label");
    this.choose(this.row + by);
    if (focused) this.detailPlace.querySelector(`[aria-label="${focused}"]`)?.focus();
  }

  /** The value of a column of the chosen exchange: from the detail, else from the table. */
  valueOf(name) {
    const index = this.columns.findIndex((one) => one.name === name);
    if (this.open !== null && this.detail.exchange && name in this.detail.exchange.row) return this.detail.exchange.row[name];
    return this.rows.at(this.row)?.row[index];
  }

  write(which, name) {
    const column = this.source.columns.find((one) => one.name === name);
    const conditions = column && conditionsOf(column, this.valueOf(name), this.names);
    if (!conditions) return say(`A filter cannot name ${name}.`);
    this.line.add(conditions[which]);
  }

  async onlyHost() {
    const number = this.open ?? this.rows.at(this.row)?.number;
    if (number === undefined) return;
    const { row } = this.detail.exchange?.number === number ? this.detail.exchange : await get(`exchanges/${number}`);
    if (row.client) this.line.add(fromHost(row.client));
  }

  /** Write a breakpoint that meets exchanges like the chosen one; in its view a person sets it. */
  async stopSuch() {
    const number = this.open ?? this.rows.at(this.row)?.number;
    if (number === undefined || !this.source.editable) return;
    const { row } = this.detail.exchange?.number === number ? this.detail.exchange : await get(`exchanges/${number}`);
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

  menu(event) {
    const cell = event.target.closest(".pane [data-column]");
    if (!cell) return;
    event.preventDefault();
    this.clicked(event);
    const column = this.columns[Number(cell.dataset.column)];
    const value = this.valueOf(column.name);
    const conditions = conditionsOf(column, value, this.names);
    const each = Array.isArray(value) && value.length > 1 ? value.slice(0, 8).map((one) => conditionsOf(column, [one], this.names)?.only) : [];
    const menu = document.createElement("div");
    const entries = [
      ...(conditions ? [[`Only ${conditions.only}`, () => this.line.add(conditions.only)], [`Not: ${conditions.not}`, () => this.line.add(conditions.not)]] : []),
      ...each.filter(Boolean).map((only) => [`Only ${only}`, () => this.line.add(only)]),
      ["Only this client's host", () => this.onlyHost()],
      ["Compare", () => this.mark()],
      ["Look into it", () => this.look()],
      ...(this.source.editable ? [["Stop such requests…", () => this.stopSuch()]] : []),
    ];
    menu.className = "menu";
    menu.popover = "auto";
    document.body.append(menu);
    menu.addEventListener("toggle", (change) => change.newState === "closed" && menu.remove());
    render(html`${entries.map(([text, run]) => html`<button @click=${() => { menu.hidePopover(); run(); }}>${visible(text)}</button>`)}`, menu);
    menu.showPopover();
    menu.style.left = `${Math.min(event.clientX, window.innerWidth - menu.offsetWidth - 4)}px`;
    menu.style.top = `${Math.min(event.clientY, window.innerHeight - menu.offsetHeight - 4)}px`;
    menu.querySelector("button").focus();
  }

  follow() {
    this.following = !this.following;
    if (this.following) this.list.scrollTo(this.rows.total);
    this.drawBar();
  }

  pause() {
    this.paused = !this.paused;
    if (!this.paused) {
      this.source = { ...this.source, ...this.missed };
      this.missed = null;
      this.rows.renew(Math.floor(this.list.first), true);
    }
    this.drawBar();
  }

  mark() {
    const number = this.open ?? this.rows.at(this.row)?.number;
    if (number === undefined) return;
    if (this.marked !== null && this.marked !== number) return compare(this.marked, number);
    this.marked = this.marked === number ? null : number;
    this.drawBar();
    this.list.ask();
    if (this.marked !== null) say(`Exchange ${number} is marked: choose another and press c, or its Compare button.`);
  }

  chooseColumns() {
    const chosen = new Set(this.columns.map((one) => one.name));
    const change = (name, shown) => {
      shown ? chosen.add(name) : chosen.delete(name);
      if (!chosen.size) return;
      this.columns = this.source.columns.filter((one) => chosen.has(one.name));
      localStorage.setItem(KEPT, this.columns.map((one) => one.name).join(","));
      this.column = Math.min(this.column, this.columns.length - 1);
      this.drawHead();
      this.ask();
    };
    ask("Columns", html`<ul class="columns">${this.source.columns.map((column) => html`<li><label title=${column.meaning ?? ""}>
      <input type="checkbox" ?checked=${chosen.has(column.name)} @change=${(event) => change(column.name, event.target.checked)} />
      ${column.name} <span class="note">${column.meaning ?? ""}</span></label></li>`)}</ul>`);
  }

  export() {
    exportMenu(this.filter);
  }

  close() {
    this.rows.forget();
    this.sizes.disconnect();
    this.list.close();
    this.detail.close();
  }
}

const isPhone = () => window.innerWidth < 760;
const isText = (column) => column.type === "text" || column.type === "texts";
const isRight = (column) => ["number", "integer"].includes(column.type);
