/**
 * What breakpoints have stopped, and the breakpoints that are set. The server is asked for both as long as the page is open, in
 * every view: breakpoints are in force while a page asks, and are removed by the server when none does.
 */

import { get, post, Refused } from "./api.js";
import { literal } from "./text.js";

const WAIT_S = 20; // that the server waits for news
const BETWEEN_MS = 100; // a thousand messages that are stopped one after the other are no thousand answers
const RETRY_MS = 2_000;
const MOST = 200; // that are shown
const MOST_DONE = 20;
const MOST_ENDS = 1_000; // stops whose end is known
const MOST_IN_FILTER = 20; // exchanges that one filter names
const USUAL = new Set(["time over"]);
const EDITS = new Set(["replace", "error", "drop", "close"]);
const OFF = 404; // page.edits was taken out of the configuration

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Stopped {
  /** `changed()` is called when something is stopped, goes on, or is set; when the server does not answer; when edits are off. */
  constructor(token, changed) {
    this.token = token;
    this.changed = changed;
    this.breakpoints = [];
    this.givenUp = []; // of them, those that are not asked any more: {condition, direction, why}
    this.stops = []; // the oldest first
    this.total = 0;
    this.ends = new StopEnds();
    this.done = []; // what was decided on this page, and how others have ended, the latest first
    this.problem = null;
    this.off = null; // why there are no breakpoints any more
    this.clock = 0; // milliseconds of the server's clock that are 0 of performance.now()
    window.addEventListener("beforeunload", (event) => this.ends.drafts.size && event.preventDefault()); // an edit is not lost unasked
  }

  /** Ask until there are no breakpoints any more. */
  async watch() {
    let after = -1;
    while (this.off === null) {
      try {
        const answer = await get("stops", { after, wait: after < 0 ? 0 : WAIT_S, limit: MOST });
        after = answer.generation;
        this.take(answer);
      } catch (error) {
        after = -1;
        this.problem = error.message;
        if (error instanceof Refused && error.status === OFF) this.end(error.message);
      }
      this.changed();
      await pause(this.problem === null ? BETWEEN_MS : RETRY_MS);
    }
  }

  take({ stops, total, ended, breakpoints, givenUp, nowMs }) {
    this.ends.take(ended);
    const there = new Set(stops.map((one) => one.id));
    this.noteEnds(this.stops.filter((one) => !there.has(one.id)));
    this.stops = stops;
    this.total = total;
    this.breakpoints = breakpoints;
    this.givenUp = givenUp;
    this.problem = null;
    this.clock = nowMs - performance.now();
  }

  end(why) {
    this.off = why;
    this.noteEnds(this.stops, { action: "resume", by: "", why: "edits off", how: "breakpoints are off now" });
    this.stops = this.breakpoints = [];
    this.total = 0;
  }

  noteEnds(stops, off = null) {
    for (const told of this.ends.told(stops, off)) this.noteDone(told);
  }

  /** Note what became of a stop. */
  noteDone(what) {
    this.done = [{ ...what, at: new Date() }, ...this.done].slice(0, MOST_DONE);
  }

  /** Milliseconds until a stop goes on by itself, by the server's clock. */
  left(stop) {
    return Math.max(stop.resumesMs - this.clock - performance.now(), 0);
  }

  find(id) {
    return this.stops.find((one) => one.id === id) ?? null;
  }

  async set(breakpoints) {
    this.breakpoints = await post("breakpoints", breakpoints, this.token, { method: "PUT" });
    this.changed();
  }

  /** The stop with its text: `json`, `hex`. */
  look(id) {
    return get(`stops/${id}`);
  }

  /** Throws Refused, as where it is over. */
  async decide(id, action, more = {}) {
    this.ends.decide(id);
    try {
      await post(`stops/${id}`, { action, ...more }, this.token);
    } catch (error) {
      this.ends.undecide(id);
      throw error;
    }
  }

  keep(id, seconds) {
    return post(`stops/${id}`, { action: "keep", seconds }, this.token);
  }

  check(id, edited, signal) {
    return post("stops/check", { id, ...edited }, this.token, { signal });
  }

  /** The rule in YAML that does the same, or why there is none: {yaml} or {why}. */
  async rule(id, action, more = {}) {
    try {
      return await post("stops/rule", { id, action, ...more }, this.token);
    } catch (error) {
      return { why: error.message };
    }
  }

  resumeAll() {
    return post("stops/resume-all", {}, this.token);
  }

  checkBreakpoint(breakpoint, signal) {
    return post("breakpoints/check", breakpoint, this.token, { signal });
  }
}

/** Names an exchange: correlation ids are unique on a connection, a connection has its client's address. */
const keyOf = ({ client, correlationId }) => `${client} ${correlationId}`;

/** How stops have ended, as the server says, and text that was edited and not sent, which is kept until its stop is over. */
class StopEnds {
  constructor() {
    this.ends = new Map(); // id -> {action, by, why, how}
    this.own = new Set(); // ids on which this page has decided
    this.drafts = new Map(); // id -> {form, text}
    this.edited = new Map(); // keyOf an exchange -> {client, correlationId}: those that did not go on as they came
  }

  /** Take what the server tells of stops that are over. */
  take(ended) {
    for (const one of ended) {
      this.ends.set(one.id, one);
      if (EDITS.has(one.action)) this.edited.set(keyOf(one), one);
    }
    while (this.edited.size > MOST_ENDS) this.edited.delete(this.edited.keys().next().value);
    while (this.ends.size > MOST_ENDS) this.ends.delete(this.ends.keys().next().value);
  }

  /** {action, by, why, how} of a stop that is over; null where it is not known. */
  of(id) {
    return this.ends.get(id) ?? null;
  }

  /** "It is not stopped any more: the client closed the connection." */
  sentence(id) {
    const end = this.of(id);
    return `It is not stopped any more${end ? `: ${end.how}` : ""}.`;
  }

  /** Whether a person edited, answered or dropped the request or the response of this exchange. */
  isEdited(exchange) {
    return this.edited.has(keyOf(exchange));
  }

  /** The filter that selects these exchanges, the latest of them. */
  get editedFilter() {
    const latest = [...this.edited.values()].slice(-MOST_IN_FILTER);
    return latest.map(({ client, correlationId }) => `(client == ${literal(client)} && correlationId == ${correlationId})`).join(" || ");
  }

  /** This page decides on it, so that its end is no news. */
  decide(id) {
    this.own.add(id);
    if (this.own.size > MOST_ENDS) this.own.delete(this.own.values().next().value);
  }

  /** It could not be decided on. */
  undecide(id) {
    this.own.delete(id);
  }

  /** Keep the text that a person has edited; null: it is as it came. */
  keep(id, draft) {
    if (draft === null) this.drafts.delete(id);
    else this.drafts.set(id, draft);
  }

  /** What is to be told of stops that are over: [{stop, end, draft, others}]; `off` is how they ended where the server does not tell. */
  told(stops, off) {
    const found = [];
    for (const one of stops.map((stop) => this.end(stop, off)).filter(Boolean)) {
      const same = one.draft === null ? found.find((other) => other.draft === null && other.end.how === one.end.how) : null;
      if (same) same.others += 1;
      else found.push({ ...one, others: 0 });
    }
    return found;
  }

  /** {stop, end, draft}; null where a person would not ask. Its text is forgotten. */
  end(stop, off) {
    const end = this.of(stop.id) ?? off;
    const draft = this.drafts.get(stop.id) ?? null;
    this.drafts.delete(stop.id);
    if (this.own.has(stop.id) || !end) return null;
    const isUsual = end.by ? end.action === "resume" : USUAL.has(end.why);
    return draft === null && isUsual ? null : { stop, end, draft };
  }
}

/** In a row of the list: "went on", "client closed", "decided". */
export function shortEnd(end) {
  if (end === null || USUAL.has(end.why) || end.action === "resume" && end.by) return "went on";
  return end.why || "decided";
}
