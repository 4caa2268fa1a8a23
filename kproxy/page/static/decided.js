/** What happened to stopped messages: decisions of this page, each with the filter rule that does the same, and other ends. */

import { copyButton } from "./asking.js";
import { titleOf } from "./stop_words.js";
import { count, timeOfDay, visible } from "./text.js";
import { html } from "./lit-html.js";

const LONGEST = 8_000; // characters of a line
const DONE = {
  resume: () => "went on as it came",
  replace: ({ changed }) => `was sent as edited: ${changed.join(", ")}`,
  error: ({ stop, more }) => (stop.direction === "request" ? `was answered with ${more.error}; the broker has not seen it` : `says ${more.error} now`),
  drop: () => "was dropped",
  close: () => "is gone, its connection was closed",
};

/** Return a line for a decision {stop, at, action, more, changed, rule} or another end {stop, at, end, draft, others}; number 0 is open. */
export const doneEntry = (what, index) => (what.end ? endEntry(what, index) : decisionEntry(what, index));

function decisionEntry({ stop, action, more, changed, rule, at }, index) {
  const head = headOf(stop, at, DONE[action]({ stop, more, changed }));
  if (!rule) return html`<p>${head}</p>`;
  return html`<details ?open=${index === 0}><summary>${head}</summary>
    ${rule.yaml ? html`<p class="note">To have it done without a page, in the configuration of the cluster <bdi>${visible(stop.cluster)}</bdi>:</p>${toCopy(rule.yaml)}` : html`<p class="note">It cannot be kept as a rule: <bdi>${visible(rule.why)}</bdi>.</p>`}</details>`;
}

function endEntry({ stop, end, draft, others, at }, index) {
  const head = headOf(stop, at, others ? `and ${count(others)} more are not stopped any more: ${end.how}` : `is not stopped any more: ${end.how}`);
  if (!draft) return html`<p>${head}</p>`;
  return html`<details ?open=${index === 0}><summary>${head}</summary><p class="note">What you had edited was not sent:</p>${toCopy(draft)}</details>`;
}

function headOf(stop, at, became) {
  const text = `${titleOf(stop)} of ${stop.clientId ?? "a client without id"} ${became}`;
  return html`<span class="muted">${timeOfDay(at.toISOString()).slice(0, 8)}</span> <bdi>${visible(text)}</bdi>`;
}

const toCopy = (text) => html`<pre class="command">${lines(text)}</pre>${copyButton(text)}`;

const lines = (text) => text.split("\n").map((line) => visible(line, LONGEST)).join("\n");
