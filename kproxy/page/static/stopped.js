/**
 * The breakpoints that are set, and the messages that they have stopped. The page asks the server for both as long as it is open, in
 * every view: the server removes breakpoints when no page asks any more.
 */

import { get, post, Refused } from "./api.js";

const WAIT_S = 20; // the server answers after this time without news
const BETWEEN_MS = 100; // between two requests, so that a thousand stops in a row do not make a thousand answers
const RETRY_MS = 2_000;
const MOST = 200; // stopped messages shown
const MOST_DONE = 20;
const MOST_ENDS = 1_000; // stops whose end is known
const USUAL = new Set(["time over"]);
const OFF = 404; // page.edits was taken out of the configuration

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Stopped {
  /** `changed()` is called after each answer of the server, and when it does not answer or no longer allows breakpoints. */
  constructor(token, changed) {
    this.token = token;
    this.changed = changed;
    this.breakpoints = [];
    this.givenUp = []; // breakpoints no longer evaluated, as they take too long: {condition, direction, why}
    this.stops = []; // the oldest first
    this.total = 0;
    this.ends = new StopEnds();
    this.done = []; // decisions of this page and other ends of stops, the latest first
    this.problem = null;
    this.off = null; // why breakpoints are no longer allowed; null while they are
    this.clock = 0; // the server's clock in ms at performance.now() = 0
    window.addEventListener("beforeunload", (event) => this.ends.drafts.size && event.preventDefault()); // ask before an unsent edit is lost
  }

  /** Ask the server until it no longer allows breakpoints. */
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
    for (const report of this.ends.reports(stops, off)) this.noteDone(report);
  }

  /** Note a decision, or another end of a stop. */
  noteDone(what) {
    this.done = [{ ...what, at: new Date() }, ...this.done].slice(0, MOST_DONE);
  }

  /** Return the milliseconds until a stopped message goes on by itself, by the server's clock. */
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

  /** Get a stopped message with its text, `json`. */
  look(id) {
    return get(`stops/${id}`);
  }

  /** Decide on a stopped message. Throws Refused, for instance if it is no longer stopped. */
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

  /** Get the filter rule that does the same: {yaml}, or {why} there is none. */
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

/** How stops ended, according to the server, and the user's unsent edits, which are kept until their stop ends. */
class StopEnds {
  constructor() {
    this.ends = new Map(); // id -> {action, by, why, how}
    this.own = new Set(); // ids of stops that this page decided on
    this.drafts = new Map(); // id -> edited text
  }

  /** Take the server's list of ended stops. */
  take(ended) {
    for (const one of ended) this.ends.set(one.id, one);
    while (this.ends.size > MOST_ENDS) this.ends.delete(this.ends.keys().next().value);
  }

  /** Return how a stop ended, as {action, by, why, how}; null if unknown. */
  of(id) {
    return this.ends.get(id) ?? null;
  }

  /** "It is not stopped any more: the client closed the connection." */
  sentence(id) {
    const end = this.of(id);
    return `It is not stopped any more${end ? `: ${end.how}` : ""}.`;
  }

  /** Note that this page decides on a stop: its end is no news then. */
  decide(id) {
    this.own.add(id);
    if (this.own.size > MOST_ENDS) this.own.delete(this.own.values().next().value);
  }

  /** Note that the decision failed. */
  undecide(id) {
    this.own.delete(id);
  }

  /** Keep the user's edit of a stopped message; null: there is none. */
  keep(id, draft) {
    if (draft === null) this.drafts.delete(id);
    else this.drafts.set(id, draft);
  }

  /** Return the ended stops to report, as [{stop, end, draft, others}]; `off` is their end if the server gives none. */
  reports(stops, off) {
    const reports = [];
    for (const one of stops.map((stop) => this.end(stop, off)).filter(Boolean)) {
      const same = one.draft === null ? reports.find((other) => other.draft === null && other.end.how === one.end.how) : null;
      if (same) same.others += 1;
      else reports.push({ ...one, others: 0 });
    }
    return reports;
  }

  /** Return {stop, end, draft}, or null if the end is of no interest; forget the edit. */
  end(stop, off) {
    const end = this.of(stop.id) ?? off;
    const draft = this.drafts.get(stop.id) ?? null;
    this.drafts.delete(stop.id);
    if (this.own.has(stop.id) || !end) return null;
    const isUsual = end.by ? end.action === "resume" : USUAL.has(end.why);
    return draft === null && isUsual ? null : { stop, end, draft };
  }
}

/** Return the end of a stop for a row of the list: "went on", "client closed", "decided". */
export function shortEnd(end) {
  if (end === null || USUAL.has(end.why) || end.action === "resume" && end.by) return "went on";
  return end.why || "decided";
}
