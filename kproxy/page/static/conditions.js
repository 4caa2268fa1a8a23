/** Conditions in CEL that a click writes: "only this client", "not Heartbeat". */

import { instantOf, isoOf, literal } from "./text.js";

const list = (name, value) => `${name}.exists(e, e.name == ${literal(value)})`;

/** Of a list: exchanges with any of its elements. */
function ofList(name, values) {
  if (!values.length) return { only: `${name} == []`, not: `${name} != []` };
  const any = values.map((one) => `${literal(one)} in ${name}`).join(" || ");
  return values.length === 1 ? { only: any, not: `!(${any})` } : { only: `(${any})`, not: `!(${any})` };
}

/** {only, not} for a cell of that column with that value, null where a filter cannot name it. `names` is what a filter may name. */
export function conditionsOf(column, value, names) {
  if (column.name === "errorName") {
    if (!value) return { only: "size(errors) == 0", not: "size(errors) > 0" };
    return { only: list("errors", value), not: `!${list("errors", value)}` };
  }
  if (!names.has(column.name)) return null;
  if (value === null || value === undefined) return { only: `${column.name} == null`, not: `${column.name} != null` };
  if (Array.isArray(value)) return ofList(column.name, value);
  if (column.type === "time") return null; // a time is no class of exchanges: brushing selects a range
  if (column.type === "number") {
    const text = Number.isInteger(value) ? `${value}.0` : String(value);
    return { only: `${column.name} >= ${text}`, not: `${column.name} < ${text}` };
  }
  return { only: `${column.name} == ${literal(value)}`, not: `${column.name} != ${literal(value)}` };
}

/**
 * Exchanges that began in a span of nanoseconds. Times of the decoded log are texts that compare as times, to the microsecond: the
 * end is rounded up to one, so that the last exchange, which a chart ends some nanoseconds after, is among them.
 */
export const within = (fromNs, toNs) => `requestAt >= "${instantOf(fromNs)}" && requestAt < "${isoOf(BigInt(toNs) + 999n)}"`;

/** "client" of "10.1.2.3:5000": the host, for all connections of it. */
export function fromHost(client) {
  const host = client.replace(/:\d+$/, "");
  return `client.startsWith(${literal(`${host}:`)})`;
}

/** Conditions of breakpoints for an exchange, each with what it means: its API of its client, all of its client, its API. */
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

/** Conditions joined by &&; empty ones are left out. Free text stays without brackets, in which the server would not read it. */
export const joined = (...parts) => parts.filter(Boolean).map((one, _, all) => (all.length > 1 && /\|\||\?/.test(one) ? `(${one})` : one)).join(" && ");
