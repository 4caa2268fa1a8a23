/** How stops have ended, as the server tells it, and the text that was edited and not sent: it is kept until its stop is over. */

import { literal } from "./text.js";

const MOST = 1_000; // stops whose end is known
const MOST_IN_FILTER = 20; // exchanges that one filter names
const USUAL = new Set(["time over"]);
const EDITS = new Set(["replace", "error", "drop", "close"]);

/** Names an exchange: correlation ids are unique on a connection, a connection has its client's address. */
const keyOf = ({ client, correlationId }) => `${client} ${correlationId}`;

export class StopEnds {
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
    while (this.edited.size > MOST) this.edited.delete(this.edited.keys().next().value);
    while (this.ends.size > MOST) this.ends.delete(this.ends.keys().next().value);
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
    if (this.own.size > MOST) this.own.delete(this.own.values().next().value);
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
