/** What stands above the page: the one dialog, short messages, and buttons that copy. */

import { visible } from "./text.js";
import { html, render } from "./lit-html.js";

const SHOWN_MS = 6000;

/** Open the dialog with a title and a template; Esc closes it, and the focus goes back to where it was. */
export function ask(title, content) {
  const dialog = document.getElementById("dialog");
  dialog.setAttribute("aria-label", title);
  render(
    html`<div class="head"><h2>${title}</h2><button class="plain" aria-label="Close" @click=${() => dialog.close()}>✕</button></div>
      <div tabindex="0" role="group" aria-label=${title}>${content}</div>`,
    dialog,
  );
  if (!dialog.open) dialog.showModal();
  return dialog;
}

/** Say one sentence for a while. */
export function say(text) {
  const place = document.getElementById("messages");
  const message = document.createElement("p");
  message.textContent = visible(text);
  place.append(message);
  while (place.childElementCount > 4) place.firstElementChild.remove();
  setTimeout(() => message.remove(), SHOWN_MS);
}

/** A button that copies a text, which stands in the `pre` before it. A browser without HTTPS copies nothing: the text is selected. */
export const copyButton = (text) => html`<p><button @click=${(event) => copy(text, event.target.closest("p").previousElementSibling)}>Copy</button></p>`;

async function copy(text, place) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    window.getSelection().selectAllChildren(place);
    say("It is selected: copy it with Ctrl+C.");
  }
}
