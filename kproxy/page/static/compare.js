/** Compare two exchanges: a dialog with the fields that differ. */

import { get } from "./api.js";
import { ask, say } from "./asking.js";
import { cellText, counted, visible } from "./text.js";
import { html } from "./lit-html.js";

const MOST = 1000;

export async function compare(a, b) {
  try {
    const { differences } = await get("compare", { a, b });
    ask(`Exchanges ${a} and ${b}`, differences.length ? table(differences, a, b) : html`<p>They are equal.</p>`);
  } catch (error) {
    say(error.message);
  }
}

function table(differences, a, b) {
  return html`<p>${counted(differences.length, "difference")}.</p><div class="rows"><table class="differ stacked">
    <thead><tr><th scope="col">side</th><th scope="col">field</th><th scope="col">#${a}</th><th scope="col">#${b}</th></tr></thead>
    <tbody>${differences.slice(0, MOST).map((one) => html`<tr><td>${one.side}</td><td><bdi>${visible(one.path)}</bdi></td><td data-of="#${a}">${value(one.a)}</td><td data-of="#${b}">${value(one.b)}</td></tr>`)}</tbody>
  </table></div>`;
}

const value = (one) => (one === null || one === undefined ? html`<span class="none">null</span>` : html`<bdi>${visible(cellText(one))}</bdi>`);
