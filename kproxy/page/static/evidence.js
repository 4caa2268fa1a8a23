/** Links from a row of an analysis to its exchanges, by a filter in CEL made from the row's columns. */

import { fragmentOf } from "./route.js";
import { literal, nsOf, isoOf } from "./text.js";

const CONDITIONS = {
  client_id: (value) => `clientId == ${literal(value)}`,
  client_address: (value) => `client.startsWith(${literal(value.includes(":") ? `[${value}]:` : `${value}:`)})`,
  broker: (value) => `broker == ${literal(value)}`,
  api_name: (value) => `apiName == ${literal(value)}`,
  error_name: () => "size(errors) > 0", // a finding may cover several errors, but its row names one
  topic: (value) => `${literal(value)} in topics`,
  group_id: (value) => `${literal(value)} in groups`,
  user_name: (value) => `principal == ${literal(value)}`,
};
const SPANS = [["first_at", "last_at"], ["began_at", "ended_at"]];

/** Return the filter for a row (an object), from those of the columns `names` that have a value. */
function conditionOf(row, names = Object.keys(CONDITIONS)) {
  const parts = names.filter((name) => typeof row[name] === "string" && (row[name] !== "" || name === "client_id")).map((name) => CONDITIONS[name](row[name]));
  return [...parts, ...SPANS.filter(([from]) => row[from]).map(([from, to]) => overlapping(row[from], row[to] ?? row[from]))].join(" && ");
}

/** Return the condition for exchanges in progress at some time of a span; its ends are known to the microsecond. */
function overlapping(from, to) {
  const [first, last] = [isoOf(nsOf(from)), isoOf(nsOf(to) + 1000n)];
  return `requestAt <= "${last}" && (responseAt == null || responseAt >= "${first}")`;
}

/** Return links to all exchanges of a row, and to its example, if the server gave a number. */
export function linksOf(row, number = null, { names, sort } = {}) {
  const filter = conditionOf(row, names);
  const links = filter ? [{ text: "Exchanges", href: fragmentOf("exchanges", { filter, sort }) }] : [];
  return number === null || number === undefined ? links : [...links, { text: `#${number}`, href: fragmentOf("exchanges", { filter, sort, at: number }) }];
}
