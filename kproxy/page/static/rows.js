/**
 * Rows of exchanges by their place in a filter's answer: blocks of them, asked for when they are seen, few enough to keep.
 *
 * There is one question to the server at a time, and the next is for what is then in sight: however fast somebody scrolls, the
 * server is asked for a few places on the way and for the last one.
 */

import { get } from "./api.js";

const BLOCK = 50; // rows
const MOST_BLOCKS = 240; // that are kept
const MOST_AT_ONCE = 4; // blocks of one question
const FIRST = 2; // blocks, of a new question
const AHEAD = 4; // blocks beyond what is seen, where somebody goes on step by step

export class Rows {
  /** `changed(problem)` is called when rows came or the total changed; with an error where the server refused. */
  constructor(changed) {
    this.changed = changed;
    this.question = { filter: "", sort: "", columns: "" };
    this.total = 0;
    this.known = false; // whether the total is
    this.generation = null;
    this.texts = []; // what the filter searches for as text
    this.left = 0; // exchanges before the first place, where all are in their order
    this.forget();
  }

  /** Ask another question; what is there is forgotten. */
  ask(question) {
    this.question = { ...this.question, ...question };
    this.forget();
    this.known = false;
    this.left = 0;
    return this.load(0, FIRST - 1);
  }

  forget() {
    this.asked?.abort();
    this.asked = null; // AbortController of the question that the server has
    this.blocks = new Map(); // of the block's number: {numbers, rows}, oldest use first
    this.seen = [0, 0]; // places in sight
    this.step = 0; // blocks by which they moved last
    this.stale = null; // {at, moved}: what is there is old
    this.failed = false; // whether the last question was; then the same is not asked again
  }

  /**
   * Rows came, or (`moved`) all have another place: ask again for those in sight, which stay until the answer is there. With
   * `at`, a place, for those around it.
   */
  renew(moved, at = null) {
    this.stale = { at, moved: moved || (this.stale?.moved ?? false) }; // news come faster than answers
    return this.next();
  }

  /** {number, row} of a place, or null while it is not there. */
  at(place) {
    const block = this.blocks.get(Math.floor(place / BLOCK));
    const row = block?.rows[place % BLOCK];
    return row === undefined ? null : { number: block.numbers[place % BLOCK], row };
  }

  /** These places are in sight: ask for what of them is missing, now or when the server has answered. */
  want(from, to) {
    if (from !== this.seen[0] || to !== this.seen[1]) {
      this.step = Math.floor(from / BLOCK) - Math.floor(this.seen[0] / BLOCK);
      this.seen = [from, to];
      this.failed = false;
    }
    for (const number of blocksOf(from, to)) {
      const block = this.blocks.get(number);
      if (!block) continue;
      this.blocks.delete(number); // to the end: used last
      this.blocks.set(number, block);
    }
    this.next();
  }

  /** Ask for what is needed most, if anything is and nothing is asked. */
  next() {
    if (this.asked) return undefined;
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
    const asked = new AbortController();
    this.asked = asked;
    const limit = Math.min(last - first + 1, MOST_AT_ONCE) * BLOCK;
    try {
      const answer = await get("exchanges", { ...this.question, offset: first * BLOCK, limit }, asked.signal);
      if (asked.signal.aborted) return;
      this.asked = null;
      this.take(first, answer);
      this.changed(null);
    } catch (error) {
      if (error.name === "AbortError" || this.asked !== asked) return;
      this.asked = null;
      this.failed = true;
      if (!this.known) this.total = 0; // those of an earlier question are no answer
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

/** The numbers of the blocks that have places from..to-1. */
function blocksOf(from, to) {
  const first = Math.floor(from / BLOCK);
  const last = Math.floor(Math.max(to - 1, from) / BLOCK);
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}
