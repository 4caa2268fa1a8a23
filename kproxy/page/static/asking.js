/** What stands above the page: the one dialog, and short messages. */

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
