/** Rows of exchanges by their place in a filter's answer: pages of them, asked for when they are seen, few enough to keep. */

import { get } from "./api.js";

const PAGE = 200; // rows
const MOST_PAGES = 60;
const MOST_AT_ONCE = 3;

export class Rows {
  /** `changed(problem)` is called when rows came or the total changed; with an error where the server refused. */
  constructor(changed) {
    this.changed = changed;
    this.question = { filter: "", sort: "", columns: "" };
    this.total = 0;
    this.known = false; // whether the total is
    this.generation = null;
    this.pages = new Map(); // of the page's number: {numbers, rows}, oldest use first
    this.asking = new Map(); // of the page's number: AbortController
    this.stale = null; // from where to ask again, when what is asked for is there
  }

  /** Ask another question; what is there is forgotten. */
  ask(question) {
    this.question = { ...this.question, ...question };
    this.forget();
    this.known = false;
    return this.load(0);
  }

  forget() {
    for (const asked of this.asking.values()) asked.abort();
    this.asking.clear();
    this.stale = null;
    this.pages.clear();
  }

  /** Rows came, or (`moved`) all have another place: ask again for those at `from`, which stay until the answer is there. */
  renew(from, moved) {
    if (this.asking.size) {
      this.stale = { from, moved: moved || (this.stale?.moved ?? false) }; // news come faster than answers
      return undefined;
    }
    const page = Math.floor(from / PAGE);
    const others = [...this.pages].filter(([number, { rows }]) => number !== page && (moved || rows.length < PAGE));
    for (const [number] of others) this.pages.delete(number);
    return this.load(page);
  }

  /** {number, row} of a place, or null while it is not there. */
  at(place) {
    const page = this.pages.get(Math.floor(place / PAGE));
    const row = page?.rows[place % PAGE];
    return row === undefined ? null : { number: page.numbers[place % PAGE], row };
  }

  /** Ask for what of these places is missing; requests for pages out of sight are given up. */
  want(from, to) {
    const first = Math.floor(from / PAGE);
    const last = Math.floor(Math.max(to - 1, from) / PAGE);
    for (const [number, asked] of this.asking) {
      if (number < first - 1 || number > last + 1) {
        asked.abort();
        this.asking.delete(number);
      }
    }
    for (let number = first; number <= last; number += 1) {
      const page = this.pages.get(number);
      if (page) {
        this.pages.delete(number); // to the end: used last
        this.pages.set(number, page);
        const expected = Math.min(this.total - number * PAGE, PAGE);
        if (page.rows.length >= expected) continue;
      }
      if (!this.asking.has(number) && this.asking.size < MOST_AT_ONCE) this.load(number);
    }
  }

  async load(number) {
    this.asking.get(number)?.abort();
    const asked = new AbortController();
    this.asking.set(number, asked);
    try {
      const answer = await get("exchanges", { ...this.question, offset: number * PAGE, limit: PAGE }, asked.signal);
      if (asked.signal.aborted) return;
      this.asking.delete(number);
      this.take(number, answer);
      this.changed(null);
      this.catchUp();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (this.asking.get(number) === asked) this.asking.delete(number);
      this.changed(error);
    }
  }

  catchUp() {
    if (this.stale === null || this.asking.size) return;
    const { from, moved } = this.stale;
    this.stale = null;
    this.renew(from, moved);
  }

  take(number, { total, generation, numbers, rows }) {
    this.generation = generation;
    this.total = total;
    this.known = true;
    this.pages.set(number, { numbers, rows });
    for (const oldest of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      this.pages.delete(oldest);
    }
  }
}
