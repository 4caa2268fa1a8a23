/** Conditions in CEL that a click writes into the filter: "only this client", "not Heartbeat"; and those of links to exchanges. */

import { fragmentOf } from "./route.js";
import { instantOf, isoOf, literal, nsOf } from "./text.js";

const list = (name, value) => `${name}.exists(e, e.name == ${literal(value)})`;

/** Conditions for a list: exchanges with any of its elements, or with none. */
function ofList(name, values) {
  if (!values.length) return { only: `${name} == []`, not: `${name} != []` };
  const any = values.map((one) => `${literal(one)} in ${name}`).join(" || ");
  return values.length === 1 ? { only: any, not: `!(${any})` } : { only: `(${any})`, not: `!(${any})` };
}

/** Return the conditions {only, not} for a cell; null if a filter cannot name its column. `names` are the names a filter knows. */
export function conditionsOf(column, value, names) {
  if (column.name === "errorName") {
    if (!value) return { only: "size(errors) == 0", not: "size(errors) > 0" };
    return { only: list("errors", value), not: `!${list("errors", value)}` };
  }
  if (!names.has(column.name)) return null;
  if (value === null || value === undefined) return { only: `${column.name} == null`, not: `${column.name} != null` };
  if (Array.isArray(value)) return ofList(column.name, value);
  if (column.type === "time") return null; // the exact time selects one exchange; spans are selected in a chart
  if (column.type === "number") {
    const text = Number.isInteger(value) ? `${value}.0` : String(value);
    return { only: `${column.name} >= ${text}`, not: `${column.name} < ${text}` };
  }
  return { only: `${column.name} == ${literal(value)}`, not: `${column.name} != ${literal(value)}` };
}

/**
 * Return the condition for exchanges that began in a span of nanoseconds. Times of the decoded log are texts to the microsecond: the
 * end is rounded up, so that the last exchange of a chart, which ends some nanoseconds later, is included.
 */
export const within = (fromNs, toNs) => `requestAt >= "${instantOf(fromNs)}" && requestAt < "${isoOf(BigInt(toNs) + 999n)}"`;

/** Return the condition for all connections of a client's host: of "10.1.2.3:5000", those from 10.1.2.3. */
export function fromHost(client) {
  const host = client.replace(/:\d+$/, "");
  return `client.startsWith(${literal(`${host}:`)})`;
}

/** Return breakpoints that fit an exchange, as {title, condition}: its API from its client, all of its client, all of its API. */
export function stopConditions({ apiName, clientId }) {
  const api = apiName ? [`apiName == ${literal(apiName)}`] : [];
  const client = [`clientId == ${literal(clientId ?? null)}`];
  const whose = clientId ? `client ${clientId}` : "clients without an id";
  return [
    ...(apiName ? [{ title: `Stop ${apiName} of ${whose}`, condition: [...api, ...client].join(" && ") }] : []),
    { title: `Stop all of ${whose}`, condition: client[0] },
    ...(apiName ? [{ title: `Stop all ${apiName}`, condition: api[0] }] : []),
  ];
}

/** Join conditions by &&, without empty ones. Free text gets no brackets, as the server reads text only outside of them. */
export const joined = (...parts) => parts.filter(Boolean).map((one, _, all) => (all.length > 1 && /\|\||\?/.test(one) ? `(${one})` : one)).join(" && ");

/** From the rows of an analysis to its exchanges: a condition for each column. */
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
