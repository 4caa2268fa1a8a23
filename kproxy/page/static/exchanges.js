/** Exchanges: a table of those that match the filter, and one of them opened below it. */

import { get } from "./api.js";
import { say } from "./asking.js";
import { chooseColumns, firstColumns, isPhone } from "./columns.js";
import { Opened } from "./detail.js";
import { compare, exportMenu, replay } from "./dialogs.js";
import { ExchangeTable } from "./exchange_table.js";
import { FilterLine } from "./filter_line.js";
import { Narrowing, openMenu } from "./narrowing.js";
import { current, note } from "./route.js";
import { Rows } from "./rows.js";
import { bytes, count, counted, lines } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

export const KEYS = [
  ["/", "write a filter"],
  ["↓ Ctrl-Space", "in the filter: complete"],
  ["↑", "in the filter: earlier filters"],
  ["↓ ↑ j k", "next and previous exchange"],
  ["PgDn PgUp Home End", "a page on or back; first, last"],
  ["← →", "choose a column"],
  ["Enter", "open the exchange: fields and bytes"],
  ["Esc", "close it"],
  ["[ ]", "in an exchange: the previous, the next"],
  ["← → Enter", "in its fields: close and open; in its bytes: move, and choose the field of a byte"],
  ["o x", "only exchanges with this value in this column; without it"],
  ["h", "only this client's host"],
  ["m", "menu of this cell"],
  ["Ctrl-Z Ctrl-Y", "undo a change of the filter; redo it"],
  ["s", "sort by this column"],
  ["c", "compare with another exchange: mark one, then the other"],
  ["v", "choose columns"],
  ["f p", "follow new exchanges; pause"],
  ["e r", "export what is shown; replay it"],
  ["b", "add a breakpoint that stops requests like this one, where the page may set some"],
];

export class Exchanges {
  constructor(place, source, stopped = null) {
    this.place = place;
    this.source = source;
    this.stopped = stopped;
    this.filter = "";
    this.sort = "";
    this.columns = firstColumns(source.columns);
    this.covers = false; // whether opening the exchange has added an entry to the browser's history
    this.problem = null; // why the server refused the last request for rows
    this.lay();
    this.rows = new Rows((problem) => this.rowsChanged(problem));
    this.following = new Following({ scroll: () => this.table.list.scrollTo(this.rows.total), drawn: () => this.drawBar() });
    this.following.on = Boolean(source.live);
    this.table = new ExchangeTable(this.place.querySelector(".table"), this.rows, {
      look: (focus) => this.look(focus),
      moved: () => this.following.stop(),
      leave: () => this.leave(),
      chosen: () => this.opened.number !== null && this.look(false),
      menu: (at) => this.menu(at),
      write: (which, name) => this.narrowing.write(which, name),
      sortBy: (name) => this.sortBy(name),
      undo: (event) => this.line.undone(event),
    });
    this.line = new FilterLine(this.place.querySelector(".filter"), (filter) => this.apply({ filter }));
    this.narrowing = new Narrowing(source, this.line, { valueOf: (name) => this.valueOf(name), row: () => this.row() }, stopped);
    this.opened = new Opened(this.place.querySelector(".detail"), {
      opened: (number) => this.shown(number),
      close: () => this.leave(),
      step: (by) => this.step(by),
      only: (name) => this.narrowing.write("only", name),
      not: (name) => this.narrowing.write("not", name),
      mark: () => this.mark(),
      stop: source.editable ? () => this.narrowing.stopSuch() : null,
    });
  }

  lay() {
    render(
      html`<div class="exchanges">
        <div class="controls"><div class="filter" @leave=${() => this.table.scroller.focus()}></div><div class="bar"></div></div>
        <div class="split">
          <div class="table scroller" role="grid" tabindex="0" aria-label="Exchanges" aria-multiselectable="false"></div>
          <section class="detail" aria-label="Exchange" hidden @keydown=${(event) => this.pressedInDetail(event)}></section>
        </div>
      </div>`,
      this.place,
    );
    this.bar = this.place.querySelector(".bar");
  }

  /** Take the parameters of the URL. */
  async enter({ filter = "", sort = "", at = "" }) {
    Object.assign(this, { filter, sort });
    if (sort || at) this.following.stop();
    this.line.set(filter);
    this.drawBar();
    await this.ask();
    await this.explainFilter();
    if (/^\d+$/.test(at)) await this.goTo(Number(at));
    else if (this.isFree(document.activeElement)) this.table.scroller.focus();
  }

  /** The URL has other parameters, after a link or a step in the browser's history. */
  async moved({ filter = "", sort = "", at = "" }) {
    if (filter !== this.filter || sort !== this.sort) {
      this.line.set(filter);
      this.table.row = 0;
      Object.assign(this, { filter, sort });
      this.drawBar();
      await this.ask();
      await this.explainFilter();
      this.table.list.scrollTo(0);
    }
    this.covers &&= at !== "";
    if (!at) this.opened.number !== null && this.leave();
    else if (Number(at) !== this.opened.number) await this.goTo(Number(at));
  }

  /** Show below the line what a filter from the URL means, or what is wrong with it. */
  async explainFilter() {
    if (this.problem) await this.line.check();
    else if (this.filter) this.line.showVerdict(this.rows);
  }

  ask() {
    this.table.setColumns(this.columns, this.sort);
    const names = new Set([...this.columns.map((one) => one.name), "edited"]); // which marks rows
    return this.rows.ask({ filter: this.filter, sort: this.sort, columns: [...names].join(",") });
  }

  async apply(changes) {
    if (!this.problem && Object.entries(changes).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, changes);
    note({ filter: this.filter, sort: this.sort }, true);
    this.drawBar();
    this.table.row = 0;
    await this.ask();
    this.table.list.scrollTo(0);
    if (this.opened.number !== null) await this.keepPlace(this.opened.number);
  }

  position = (number) => get("position", { number, filter: this.filter, sort: this.sort });

  /** Choose the open exchange at its new place after another filter or sort. */
  async keepPlace(number) {
    const { offset } = await this.position(number);
    if (offset === null) return;
    this.table.row = offset;
    this.table.list.reveal(offset);
  }

  async goTo(number) {
    try {
      const { offset } = await this.position(number);
      if (offset !== null) this.table.goTo(offset);
      await this.opened.show(number, true);
    } catch (error) {
      say(error.message);
    }
  }

  rowsChanged(problem) {
    this.problem = problem;
    if (problem && problem.column === null) say(problem.message);
    this.table.changed(this.rows.known || problem ? this.emptyText() : "");
    this.following.rowsChanged();
    this.drawBar();
  }

  emptyText() {
    if (this.problem) return this.problem.column !== null ? "The filter has a mistake." : this.problem.status ? this.problem.message : "The server did not answer.";
    if (this.filter) return "No exchange matches the filter.";
    if (this.source.live) return lines(["There is no exchange yet.", ...this.waysIn()]);
    return lines(["No Kafka exchange was found.", ...(this.source.unread ?? [])]);
  }

  /** Return lines that say how exchanges come into an empty live page. */
  waysIn() {
    const { clientAddresses = [], mostBytes } = this.source;
    if (!clientAddresses.length) return [];
    const kept = mostBytes ? [`The newest exchanges are kept, up to ${bytes(mostBytes)} of memory.`] : [];
    return [`Give clients this address: bootstrap.servers=${clientAddresses.join("  or  ")}`, ...kept];
  }

  /** A message was stopped or edited, or a breakpoint changed. */
  stopsChanged() {
    this.table.list.schedule();
    this.drawBar();
  }

  /** The server reports that exchanges came, or that the oldest left. */
  renewed(news) {
    if (!this.following.takes(news)) return;
    const moved = this.sort !== "" || news.left !== this.source.left;
    this.source = { ...this.source, ...news };
    this.drawBar();
    if (news.generation === this.rows.generation) return; // the rows are as new as the news; only the number of all exchanges was not
    const all = this.filter ? this.rows.total : news.exchanges;
    this.rows.renew(moved, this.following.on ? Math.max(all - 1, 0) : null);
  }

  pause() {
    const missed = this.following.pause();
    if (this.following.paused) return;
    this.source = { ...this.source, ...missed };
    this.rows.renew(true);
  }

  sortBy(name) {
    this.following.stop();
    this.apply({ sort: this.sort === name ? `-${name}` : this.sort === `-${name}` ? "" : name });
  }

  drawBar() {
    const { total, known } = this.rows;
    const { marked } = this.table;
    const { on, paused } = this.following;
    const of = this.filter && this.source.exchanges ? html` <span class="muted">of ${count(this.source.exchanges)}</span>` : nothing;
    const live = this.source.live || this.source.loading;
    render(
      html`<span class="total" aria-live="polite">${known ? html`${counted(total, "exchange")}${of}` : this.problem ? "" : "…"}</span>
        ${this.filter ? html`<button @click=${() => { this.line.write(""); this.table.scroller.focus(); }}>Clear filter</button>` : nothing}
        <button @click=${() => { this.line.add('apiName != "Heartbeat"'); }}>Not Heartbeat</button>
        <button @click=${() => { this.line.add("size(errors) > 0"); }}>Errors</button>
        ${this.source.mayHaveEdits ? html`<button title="Those that filters or breakpoints changed, answered or dropped" @click=${() => this.line.add("size(edited) > 0")}>Edited</button>` : nothing}
        ${live ? html`<button aria-pressed=${String(on)} @click=${() => this.following.follow()}>Follow</button>
          <button aria-pressed=${String(paused)} @click=${() => this.pause()}>${paused ? "Resume" : "Pause"}</button>` : nothing}
        <button @click=${() => this.chooseColumns()}>Columns</button>
        <button @click=${() => this.export()}>Export</button>
        ${this.source.live ? nothing : html`<button @click=${() => this.replay()}>Replay</button>`}
        ${marked !== null ? html`<button @click=${() => { this.setMarked(null); this.table.scroller.focus(); }}>Compare with #${marked} ✕</button>` : nothing}`,
      this.bar,
    );
  }

  /** Handle a key of this view; true if it has a meaning here. */
  key(event) {
    const doings = {
      "/": () => this.line.focus(), f: () => this.following.follow(), p: () => this.pause(), v: () => this.chooseColumns(),
      e: () => this.export(), r: () => this.replay(), c: () => this.mark(), h: () => this.narrowing.onlyHost(),
      b: () => this.narrowing.stopSuch(),
    };
    doings[event.key]?.();
    return event.key in doings || (this.isFree(event.target) && this.keyOfTable(event));
  }

  /** Whether the focused element takes no keys itself: it is the page, or the view just after it was chosen. */
  isFree(element) {
    return element === document.body || element === this.place;
  }

  /** Give the table its keys while nothing has the focus, as after a click outside of it. */
  keyOfTable(event) {
    this.table.pressed(event);
    if (event.defaultPrevented && this.isFree(document.activeElement)) this.table.scroller.focus();
    return event.defaultPrevented;
  }

  pressedInDetail(event) {
    if (event.key === "Escape") this.leave();
    else if (event.key === "]" || event.key === "[") this.step(event.key === "]" ? 1 : -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Show the chosen exchange below the table. */
  async look(focus = true) {
    const { row } = this.table;
    const number = this.table.found?.number ?? (await this.numberAt(row));
    if (number !== undefined && row === this.table.row) await this.opened.show(number, focus);
  }

  async numberAt(row) {
    const { numbers } = await get("exchanges", { filter: this.filter, sort: this.sort, offset: row, limit: 1, columns: this.columns[0].name });
    return numbers[0];
  }

  shown(number) {
    const covers = isPhone() && !current().parameters.at; // the browser's back button leads back to the table
    this.covers ||= covers;
    note({ at: number }, covers);
    this.table.list.reveal(this.table.row);
  }

  leave() {
    this.opened.close();
    this.covers ? window.history.back() : note({ at: null });
    this.covers = false;
    this.table.scroller.focus();
    this.table.list.schedule();
  }

  step(by) {
    this.table.choose(this.table.row + by);
  }

  /** Return a value of the chosen exchange, from the detail or the table. */
  valueOf(name) {
    const { exchange } = this.opened.detail;
    if (this.opened.number !== null && exchange && name in exchange.row) return exchange.row[name];
    return this.table.valueOf(name);
  }

  get number() {
    return this.opened.number ?? this.table.found?.number ?? null;
  }

  /** Return the chosen exchange's row with all columns. */
  async row() {
    const { number } = this;
    return number === null ? null : this.opened.rowOf(number);
  }

  menu(at) {
    openMenu(at, [
      ...this.narrowing.entries(this.table.columns[this.table.column].name),
      ["Compare", () => this.mark()],
      ["Open it", () => this.look()],
      ...(this.source.editable ? [["Stop such requests…", () => this.narrowing.stopSuch()]] : []),
    ]);
  }

  /** Mark an exchange, or compare it with the marked one. */
  mark() {
    const { number } = this;
    const { marked } = this.table;
    if (number === null) return;
    if (marked !== null && marked !== number) return compare(marked, number);
    this.setMarked(marked === number ? null : number);
    if (marked === null) say(`Exchange ${number} is marked: choose another and press c, or its Compare button.`);
  }

  setMarked(number) {
    this.table.marked = number;
    this.table.list.schedule();
    this.drawBar();
  }

  chooseColumns() {
    chooseColumns(this.source.columns, this.columns, (columns) => {
      this.columns = columns;
      this.ask();
    });
  }

  export() {
    exportMenu(this.filter);
  }

  replay() {
    replay({ filter: this.filter, fromNs: null, toNs: null }, this.source.token);
  }

  close() {
    this.rows.forget();
    this.table.close();
    this.opened.close();
  }
}

/** How the table takes new exchanges: it follows the last one, stays where it is, or is paused. */
class Following {
  /** `scroll()` goes to the last row; `drawn()` shows the state. */
  constructor({ scroll, drawn }) {
    Object.assign(this, { scroll, drawn });
    this.on = false;
    this.paused = false;
    this.missed = null; // the latest news since it was paused
  }

  /** Return whether the view takes news of the server now. */
  takes(news) {
    if (this.paused) this.missed = news;
    return !this.paused;
  }

  rowsChanged() {
    if (this.on && !this.paused) this.scroll();
  }

  /** Stop following, as the user looks at other rows. */
  stop() {
    if (!this.on) return;
    this.on = false;
    this.drawn();
  }

  follow() {
    this.on = !this.on;
    if (this.on) this.scroll();
    this.drawn();
  }

  /** Pause, or go on. Returns the latest news missed meanwhile. */
  pause() {
    this.paused = !this.paused;
    const { missed } = this;
    this.missed = null;
    this.drawn();
    return missed;
  }
}
