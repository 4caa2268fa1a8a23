/**
 * Text for people: names from the traffic that cannot reorder, hide or break the text around them; times, sizes, durations.
 *
 * Everything here returns strings or templates of lit-html, which sets values as text and never as HTML.
 */

import { html } from "./lit-html.js";

const LONGEST = 400; // characters of one value; the detail of an exchange has the whole value

// The characters that kproxy escapes on a terminal (controls, formatting, separators, unusual spaces, unassigned characters,
// private use, unpaired surrogates), and marks that have no width.
const UNSEEN =
  /[\p{C}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u3164\ufe00-\ufe0f\uffa0]|[\u{e0000}-\u{e0fff}]/gu;
const STACKED = /(\p{M}{3})\p{M}+/gu; // more marks on a letter than any language has, which would reach into other lines

/** Make invisible characters visible: controls as their pictures (␛), others as their code (\u202e). */
export function visible(text, longest = LONGEST) {
  const cut = text.length > longest ? text.slice(0, longest) : text;
  const shown = cut.replace(UNSEEN, picture).replace(STACKED, "$1…");
  return cut.length < text.length ? `${shown}… (${count(text.length)} characters)` : shown;
}

function picture(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Draw a name from the traffic, isolated from the direction of the text around it. */
export function named(text) {
  if (text === null || text === undefined) return html`<span class="none">none</span>`;
  if (text === "") return html`<span class="none">empty</span>`;
  return html`<bdi>${visible(String(text))}</bdi>`;
}

// A name written from right to left
const RIGHT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const RIGHT_TO_LEFT = new RegExp(`([${RIGHT}](?:[\\p{M}${RIGHT}]|[ ._-](?=[${RIGHT}]))*)`, "u");

/** Isolate names written from right to left within a text that is already visible, so that they do not reorder it. */
export const isolated = (text) => text.split(RIGHT_TO_LEFT).map((part, at) => (at % 2 ? html`<bdi>${part}</bdi>` : part));

/** Draw a sentence of kproxy with names from the traffic in it, from left to right whatever it begins with. */
export const sentence = (text, longest = LONGEST) => html`<bdi dir="ltr">${isolated(visible(String(text), longest))}</bdi>`;

/** Return sentences, one in a line, for places that take plain text only. */
export const lines = (sentences) => sentences.map((one) => visible(one, 500)).join("\n");

/** Isolate a name in a tooltip by Unicode's isolating characters, as tooltips have no elements. */
export const apart = (text) => `\u2068${visible(String(text))}\u2069`;

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const FIXED = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const PARTS = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

export const count = (number) => WHOLE.format(number);

/** Return milliseconds with three decimals, so that they line up: "1,204.300". */
export const milliseconds = (number) => FIXED[3].format(number);

/** Return how many decimals the numbers of a column need, at most three; all are shown with as many, so that they line up. */
export const decimalsOf = (values) => Math.max(0, ...values.filter(isNumber).map((value) => (PARTS.format(value).split(".")[1] ?? "").length));

/** "1 row", "2,000 rows" */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  let value = number;
  while (Math.abs(value) >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function duration(ms) {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${PARTS.format(Number(ms.toPrecision(3)))} ms`;
  if (ms < 120_000) return `${(ms / 1000).toPrecision(3)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}

/** Return nanoseconds since 1970 (string or BigInt) as ISO 8601 in UTC, to the microsecond. */
export function isoOf(ns) {
  const whole = BigInt(ns);
  const date = new Date(Number(whole / 1_000_000n)).toISOString();
  const micros = (whole / 1000n) % 1_000_000n;
  return `${date.slice(0, 19)}.${String(micros).padStart(6, "0")}Z`;
}

/** Return the time as the decoded log has it: to the nanosecond, unless it is a whole microsecond. */
export function instantOf(ns) {
  const nanos = BigInt(ns) % 1000n;
  return nanos ? isoOf(ns).replace("Z", `${String(nanos).padStart(3, "0")}Z`) : isoOf(ns);
}

/** Return the time of day of an ISO 8601 time. */
export const timeOfDay = (iso) => iso.replace(/^.*T/, "").replace(/Z$/, "");

/** Return a time of the server as ISO 8601; digits are nanoseconds. */
export const timeText = (value) => (/^\d+$/.test(String(value)) ? isoOf(value) : String(value));

/** Return a time of an analysis, nanoseconds or ISO 8601, in nanoseconds. */
export function nsOf(value) {
  const text = timeText(value);
  const parts = /\.(\d+)/.exec(text)?.[1] ?? "";
  const seconds = Date.parse(`${text.replace(/\.\d+/, "").replace(/Z?$/, "Z").replace(" ", "T")}`);
  return BigInt(seconds) * 1_000_000n + BigInt(parts.padEnd(9, "0").slice(0, 9) || 0);
}

const UNGROUPED = /(port|id|ids|generation\w*|partition|offset|epoch|number|version|connection|exchange|key|code)$/i; // numbers that are names, not amounts
const isTime = (column) => /time|timestamp/i.test(column.type ?? "") || column.unit === "ns" || /(^at|_at|At)$/.test(column.name);

/** Return what a cell shows, by its column {name, type, unit}. */
export function cellText(value, column = { name: "" }) {
  if (value === null || value === undefined) return "";
  if (/_micros$/.test(column.name)) return timeText(`${value}000`);
  if (isTime(column) && (typeof value === "string" || typeof value === "bigint")) return timeText(value);
  if (/(^|_)at_ms$/.test(column.name)) return timeText(`${value}000000`);
  if (typeof value === "number") return UNGROUPED.test(column.name) ? String(value) : column.decimals ? FIXED[column.decimals].format(value) : PARTS.format(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((one) => cellText(one)).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => `${key} ${cellText(one)}`).join(", ");
  return String(value);
}

/** Return the heading of a column; where cells show a time instead of a number, it has no unit. */
export const headOf = ({ name }) => (/_micros$/.test(name) ? name.replace(/_micros$/, "_at") : name.replace(/(^|_)at_ms$/, "$1at"));

/** Whether a value is a number, which stands at the right. */
export const isNumber = (value) => typeof value === "number";

/** Whether the numbers of a column are amounts, rather than names such as ids. */
export const isMeasure = (column) => !UNGROUPED.test(column.name) && headOf(column) === column.name;

/** Return the literal of CEL for a value. */
export function literal(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const escaped = JSON.stringify(value).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  // CEL has no surrogates: characters beyond 16 bits are escapes of eight digits
  return escaped.replace(/\\u(d[89ab]..)\\u(d[c-f]..)/g, (_, high, low) => {
    const code = 0x10000 + ((parseInt(high, 16) - 0xd800) << 10) + (parseInt(low, 16) - 0xdc00);
    return `\\U${code.toString(16).padStart(8, "0")}`;
  });
}
