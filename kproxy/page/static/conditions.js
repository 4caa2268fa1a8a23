/** Conditions in CEL that a click writes into the filter: "only this client", "not Heartbeat". */

import { instantOf, isoOf, literal } from "./text.js";

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
