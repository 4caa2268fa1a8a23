/** What stands above the page: the one dialog, short messages, and buttons that copy. */

import { visible } from "./text.js";
import { html, render } from "./lit-html.js";

const SHOWN_MS = 6000;

/** Open the dialog with a title and a template. Esc closes it and gives the focus back. */
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

/** Show one sentence for some seconds. */
export function say(text) {
  const place = document.getElementById("messages");
  const message = document.createElement("p");
  message.textContent = visible(text);
  place.append(message);
  while (place.childElementCount > 4) place.firstElementChild.remove();
  setTimeout(() => message.remove(), SHOWN_MS);
}

/** Return a button that copies the text of the `pre` before it. Browsers copy only over HTTPS or from this machine; else the text is selected. */
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
