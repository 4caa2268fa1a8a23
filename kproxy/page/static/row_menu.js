/** The menu of a cell of the table: what may be done with the exchange, and with what stands in the cell. */

import { visible } from "./text.js";
import { html, render } from "./lit-html.js";

/** Open a menu at {x, y} in the window: entries are [text, what to do]. Arrows move in it, Esc closes it. */
export function openMenu({ x, y }, entries) {
  const before = document.activeElement;
  const menu = document.createElement("div");
  menu.className = "menu";
  menu.role = "menu";
  menu.popover = "auto";
  document.body.append(menu);
  const run = (doing) => {
    menu.hidePopover();
    doing();
  };
  render(html`${entries.map(([text, doing]) => html`<button role="menuitem" @click=${() => run(doing)}>${visible(text)}</button>`)}`, menu);
  menu.addEventListener("keydown", (event) => pressed(event, menu));
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) before?.focus();
    menu.remove();
  });
  menu.showPopover();
  menu.style.left = `${Math.max(Math.min(x, window.innerWidth - menu.offsetWidth - 4), 4)}px`;
  menu.style.top = `${Math.max(Math.min(y, window.innerHeight - menu.offsetHeight - 4), 4)}px`;
  menu.querySelector("button").focus();
}

function pressed(event, menu) {
  const buttons = [...menu.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  else if (to === undefined) return;
  else buttons.at(to % buttons.length).focus();
  event.preventDefault();
  event.stopPropagation();
}
