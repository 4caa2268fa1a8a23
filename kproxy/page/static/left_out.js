/** Exchanges missing from an answer: a sentence about them, and marks in charts. */

import { count, counted, visible } from "./text.js";
import { html, nothing, svg } from "./lit-html.js";

/** Say what is missing and what to do, from the first of these answers that lacks exchanges. */
export function leftOutNote(...answers) {
  const { said, advice } = answers.find((answer) => answer?.leftOut)?.leftOut ?? {};
  if (!said) return nothing;
  return html`<p class="left-out" role="note"><span class="warning">${visible(said, 1000)}</span> ${visible(advice, 1000)}</p>`;
}

/** Say why rows of an answer may be wrong, if exchanges are missing. */
export function uncertainNote(answer) {
  if (!answer?.uncertain || !answer.rows.length) return nothing;
  return html`<p class="left-out" role="note"><span class="warning">Not certain.</span> ${visible(answer.uncertain, 1000)}</p>`;
}

/** Mark times with missing exchanges. `ends` are the limits of the buckets, one more than answer.leftOutBy has. */
export function missingMarks(answer, scale, ends, height) {
  const some = (answer.leftOutBy ?? []).map((number, at) => ({ number, from: ends[at], to: ends[at + 1] })).filter((one) => one.number);
  const unseen = (answer.leftOut?.unseen ?? []).map((one) => ({ number: null, from: BigInt(one.fromNs), to: BigInt(one.toNs) }));
  return svg`${[...some, ...unseen].map(({ number, from, to }) => {
    if (to < scale.fromNs || from > scale.toNs) return nothing;
    const left = scale.x(from < scale.fromNs ? scale.fromNs : from);
    const right = scale.x(to > scale.toNs ? scale.toNs : to);
    const text = number === null ? "Nothing is known of this time" : `${counted(number, "exchange")} ${number === 1 ? "is" : "are"} not here`;
    return svg`<rect class="missing" data-missing=${number ?? "all"} x=${left.toFixed(1)} y="0" width=${Math.max(right - left, 2).toFixed(1)} height=${height}><title>${text}</title></rect>`;
  })}`;
}

/** Return the missing exchanges as a series for stackedBars; [] if none is missing. */
export function missingSeries(answer) {
  const values = answer.leftOutBy ?? [];
  return values.some(Boolean) ? [{ name: "not here", values, colour: "missing" }] : [];
}

/** Return how many exchanges are missing from an answer's charts, as text; null if none is. */
export function missingSum(answer) {
  const sum = (answer.leftOutBy ?? []).reduce((a, b) => a + b, 0);
  return sum ? count(sum) : null;
}
