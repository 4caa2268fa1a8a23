/** The dialog in which an error of Kafka's is chosen: typed in part, by its name, number or meaning. */

import { get } from "./api.js";
import { ask } from "./asking.js";
import { counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

let known = null; // all errors, once they were asked for

/** `chosen(name)` is called with the error, unless the dialog is left. */
export async function chooseError(title, chosen) {
  known ??= await get("stops/errors");
  const dialog = ask(title, html`<div class="error-choice"></div>`);
  const place = dialog.querySelector(".error-choice");
  let at = 0;
  let found = known;

  const take = (error) => {
    dialog.close();
    chosen(error.name);
  };
  const typed = (event) => {
    found = matching(event.target.value);
    at = 0;
    draw();
  };
  const move = (by) => {
    at = Math.min(Math.max(at + by, 0), found.length - 1);
    draw();
    place.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  };
  const pressed = (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in moves) move(moves[event.key]);
    else if (event.key === "Enter" && found.length) take(found[at]);
    else return;
    event.preventDefault();
  };
  const draw = () => {
    render(
      html`<input type="text" role="combobox" aria-label="Error: a part of its name, number or meaning" aria-autocomplete="list" aria-expanded="true"
          aria-controls="errors" aria-activedescendant=${found.length ? `error-${at}` : ""} autocomplete="off" spellcheck="false"
          placeholder="NOT_LEADER, 41, throttle…" @input=${typed} @keydown=${pressed} />
        <p class="note" aria-live="polite">${found.length ? counted(found.length, "error") : "No error has that in its name, number or meaning."}</p>
        <ul id="errors" role="listbox" aria-label="Errors" ?hidden=${!found.length}>${found.map((one, index) => choice(one, index))}</ul>`,
      place,
    );
  };
  const choice = (error, index) => html`<li role="option" id="error-${index}" aria-selected=${String(index === at)} @click=${() => take(error)}>
    <b>${error.name}</b> <span>${error.code}${error.retriable ? " · clients retry it" : nothing}</span>
    <span class="meaning">${visible(error.meaning)}</span></li>`;

  draw();
  place.querySelector("input").focus();
}

/** Errors that have each of the words somewhere; those with the first in their name come first. */
function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = ({ name, code, meaning }) => `${name} ${code} ${meaning}`.toLowerCase();
  const found = known.filter((one) => words.every((word) => texts(one).includes(word)));
  if (!words.length) return found;
  const rank = (one) => (String(one.code) === words[0] ? 0 : one.name.toLowerCase().includes(words[0]) ? 1 : 2);
  return found.sort((a, b) => rank(a) - rank(b));
}
