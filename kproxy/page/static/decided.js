/** What a person has decided about stopped messages, each with the rule that does the same without a page. */

import { say } from "./asking.js";
import { titleOf } from "./stop_editor.js";
import { timeOfDay, visible } from "./text.js";
import { html } from "./lit-html.js";

const DONE = {
  resume: () => "went on as it came",
  replace: ({ changed }) => `was sent as edited: ${changed.length ? changed.join(", ") : "other bytes"}`,
  error: ({ stop, more }) => (stop.direction === "request" ? `was answered with ${more.error}; the broker has not seen it` : `says ${more.error} now`),
  drop: () => "was dropped",
  close: () => "is gone, its connection was closed",
};

/** A line for a decision {stop, action, more, changed, rule, at}; the latest, of index 0, is open. */
export function decisionEntry({ stop, action, more, changed, rule, at }, index) {
  const text = `${titleOf(stop)} of ${stop.clientId ?? "a client without id"} ${DONE[action]({ stop, more, changed })}`;
  const copy = (event) => copied(event.target.closest("details").querySelector("pre"), rule.yaml);
  const head = html`<span class="muted">${timeOfDay(at.toISOString()).slice(0, 8)}</span> <bdi>${visible(text)}</bdi>`;
  if (!rule) return html`<p>${head}</p>`;
  return html`<details ?open=${index === 0}><summary>${head}</summary>
    ${rule.yaml ? html`<p class="note">To have it done without a page, as a rule of the configuration:</p><pre class="command">${lines(rule.yaml)}</pre><button @click=${copy}>Copy</button>` : html`<p class="note">It cannot be kept as a rule: <bdi>${visible(rule.why)}</bdi>.</p>`}</details>`;
}

const lines = (text) => text.split("\n").map((line) => visible(line, 8_000)).join("\n");

/** Copy the text; where a browser allows that to nobody, as it does without HTTPS, select it. */
async function copied(place, text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    window.getSelection().selectAllChildren(place);
    say("It is selected: copy it with Ctrl+C.");
  }
}
