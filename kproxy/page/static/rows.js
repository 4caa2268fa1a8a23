/**
 * The rows that match a filter, by their index: blocks of rows, requested when they come into sight, and few enough to keep.
 *
 * One request runs at a time, and the next is for the rows in sight then. However fast the user scrolls, the server is asked for a few
 * places on the way and for the last one.
 */

import { get } from "./api.js";

const BLOCK = 50; // rows
const MOST_BLOCKS = 240; // kept in memory
const MOST_AT_ONCE = 4; // blocks in one request
const FIRST = 2; // blocks in the first request
const AHEAD = 4; // blocks requested in advance, while the user scrolls steadily

export class Rows {
  /** `changed(problem)` is called when rows came or the total changed, with an error if the server refused. */
  constructor(changed) {
    this.changed = changed;
    this.question = { filter: "", sort: "", columns: "" };
    this.total = 0;
    this.known = false; // whether the server has told the total
    this.generation = null;
    this.texts = []; // what the filter searches for as text
    this.left = 0; // exchanges that left before the first row, if there is neither filter nor sort
    this.forget();
  }

  /** Ask for other rows, and forget the present ones. */
  ask(question) {
    this.question = { ...this.question, ...question };
    this.forget();
    this.known = false;
    this.left = 0;
    return this.load(0, FIRST - 1);
  }

  forget() {
    this.running?.abort();
    this.running = null; // AbortController of the running request
    this.blocks = new Map(); // number of a block -> {numbers, rows}, least recently used first
    this.seen = [0, 0]; // rows in sight: from, to
    this.step = 0; // by how many blocks they moved last
    this.stale = null; // {at, moved} while the shown rows are old; else null
    this.failed = false; // whether the last request failed; it is not repeated
  }

  /**
   * Ask again for the rows in sight, or around the row `at`, as rows came, or (`moved`) all rows have another index. The old ones are
   * shown until the answer comes.
   */
  renew(moved, at = null) {
    this.stale = { at, moved: moved || (this.stale?.moved ?? false) }; // news come faster than answers
    return this.next();
  }

  /** Return row number `place` as {number, row}; null until the server has sent it. */
  at(place) {
    const block = this.blocks.get(Math.floor(place / BLOCK));
    const row = block?.rows[place % BLOCK];
    return row === undefined ? null : { number: block.numbers[place % BLOCK], row };
  }

  /** Note which rows are in sight, and request missing ones, now or once the running request has ended. */
  want(from, to) {
    if (from !== this.seen[0] || to !== this.seen[1]) {
      this.step = Math.floor(from / BLOCK) - Math.floor(this.seen[0] / BLOCK);
      this.seen = [from, to];
      this.failed = false;
    }
    for (const number of blocksOf(from, to)) {
      const block = this.blocks.get(number);
      if (!block) continue;
      this.blocks.delete(number); // move to the end: used last
      this.blocks.set(number, block);
    }
    this.next();
  }

  /** Request what is needed most, unless a request is running. */
  next() {
    if (this.running) return undefined;
    const missing = this.failed ? [] : blocksOf(...this.seen).filter((number) => this.lacks(number));
    if (missing.length) return this.load(missing[0], missing.at(-1));
    if (this.stale) return this.again();
    if (Math.abs(this.step) === 1 && !this.failed) return this.ahead();
    return undefined;
  }

  lacks(number) {
    const block = this.blocks.get(number);
    if (!this.known) return false; // the first answer says how many there are
    const expected = Math.min(this.total - number * BLOCK, BLOCK);
    return expected > 0 && (block?.rows.length ?? 0) < expected;
  }

  again() {
    const { at, moved } = this.stale;
    this.stale = null;
    const seen = at === null ? blocksOf(...this.seen) : [Math.floor(Math.max(at - BLOCK, 0) / BLOCK), Math.floor(at / BLOCK)];
    for (const [number, { rows }] of [...this.blocks]) {
      if (!seen.includes(number) && (moved || rows.length < BLOCK)) this.blocks.delete(number);
    }
    return this.load(seen[0], seen.at(-1));
  }

  ahead() {
    const last = blocksOf(...this.seen).at(this.step > 0 ? -1 : 0);
    const numbers = Array.from({ length: AHEAD }, (_, at) => last + this.step * (at + 1)).filter((number) => number >= 0);
    if (!numbers.length || !this.lacks(numbers[0])) return undefined;
    const missing = numbers.filter((number) => this.lacks(number));
    return this.load(Math.min(...missing), Math.max(...missing));
  }

  async load(first, last) {
    const running = new AbortController();
    this.running = running;
    const limit = Math.min(last - first + 1, MOST_AT_ONCE) * BLOCK;
    try {
      const answer = await get("exchanges", { ...this.question, offset: first * BLOCK, limit }, running.signal);
      if (running.signal.aborted) return;
      this.running = null;
      this.take(first, answer);
      this.changed(null);
    } catch (error) {
      if (error.name === "AbortError" || this.running !== running) return;
      this.running = null;
      this.failed = true;
      if (!this.known) this.total = 0; // an earlier total belongs to another filter
      this.changed(error);
    }
    this.next();
  }

  take(first, { total, generation, numbers, rows, texts }) {
    this.generation = generation;
    this.texts = texts;
    this.total = total;
    this.known = true;
    this.failed = false;
    if (!this.question.filter && !this.question.sort && numbers.length) this.left = numbers[0] - 1 - first * BLOCK;
    for (let at = 0; at === 0 || at < rows.length; at += BLOCK) {
      const number = first + at / BLOCK;
      this.blocks.delete(number);
      this.blocks.set(number, { numbers: numbers.slice(at, at + BLOCK), rows: rows.slice(at, at + BLOCK) });
    }
    for (const oldest of this.blocks.keys()) {
      if (this.blocks.size <= MOST_BLOCKS) break;
      this.blocks.delete(oldest);
    }
  }
}

/** Return the numbers of the blocks with the rows from..to-1. */
function blocksOf(from, to) {
  const first = Math.floor(from / BLOCK);
  const last = Math.floor(Math.max(to - 1, from) / BLOCK);
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}
