/** The fields of a request or response as a tree. A field highlights its bytes, and a byte its field. */

import { counted, visible } from "./text.js";
import { Windowed } from "./windowed.js";
import { html, nothing, render } from "./lit-html.js";

const ROW = 22;
const OPEN_DEPTH = 3;
const OPEN_CHILDREN = 40; // longer arrays are closed at first

/** Return the nodes that have a byte in them, from the root to the innermost one. */
export function pathToByte(root, offset) {
  const path = [];
  for (let node = root; node; node = node.children.find((child) => child.start !== null && child.start <= offset && offset < child.end)) path.push(node);
  return path;
}

export class Tree {
  /** `pointed(node, pinned)` is called with the node under the pointer (null: none); `pinned` if it was chosen. */
  constructor(place, label, pointed) {
    this.place = place;
    this.label = label;
    this.pointed = pointed;
    this.root = null;
    this.open = new Map(); // node -> whether the user opened or closed it
    this.rows = []; // visible rows: {node, depth, parent}
    this.chosen = -1;
    this.lit = null;
    render(
      html`<div class="tree scroller" role="tree" tabindex="0" aria-label=${label} @keydown=${(event) => this.pressed(event)}>
        <div class="pane" role="presentation"></div><div class="space" role="presentation"></div></div>`,
      place,
    );
    this.scroller = place.querySelector(".scroller");
    this.list = Windowed.inside(this.scroller, ROW, (from, to, shift) => this.draw(from, to, shift));
  }

  show(root) {
    this.root = root;
    this.open.clear();
    this.chosen = -1;
    this.lit = null;
    this.flatten();
    this.list.scrollTo(0);
  }

  isOpen(node, depth) {
    return this.open.get(node) ?? (depth < OPEN_DEPTH && node.children.length <= OPEN_CHILDREN);
  }

  flatten() {
    const rows = [];
    const walk = (node, depth, parent) => {
      const at = rows.length;
      rows.push({ node, depth, parent });
      if (!this.isOpen(node, depth)) return;
      for (const child of node.children) walk(child, depth + 1, at);
      if (node.more) rows.push({ more: node.more, node, depth: depth + 1, parent: at });
    };
    if (this.root) for (const child of this.root.children.length ? this.root.children : [this.root]) walk(child, 0, -1);
    this.rows = rows;
    this.list.setTotal(rows.length);
  }

  /** Choose the innermost field with this byte, and open its parents. */
  find(offset) {
    const path = pathToByte(this.root, offset);
    const found = path.at(-1);
    if (!found || found === this.root) return;
    for (const parent of path.slice(1, -1)) this.open.set(parent, true);
    this.flatten();
    this.choose(this.rows.findIndex((row) => row.node === found && !row.more));
  }

  choose(at) {
    if (at < 0 || at >= this.rows.length) return;
    this.chosen = at;
    this.list.reveal(at);
    this.list.schedule();
    this.pointed(this.rows[at].node, true);
  }

  light(node) {
    this.lit = node;
    this.list.schedule();
  }

  toggle(at, open) {
    const { node, depth } = this.rows[at];
    if (!node.children.length) return;
    this.open.set(node, open ?? !this.isOpen(node, depth));
    this.flatten();
  }

  pressed(event) {
    const row = this.rows[Math.max(this.chosen, 0)];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const open = this.isOpen(row.node, row.depth);
    const page = Math.floor(this.list.capacity) - 1;
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (event.key in moves) this.choose(Math.min(Math.max(this.chosen + moves[event.key], 0), this.rows.length - 1));
    else if (event.key === "ArrowRight") !row.more && row.node.children.length && !open ? this.toggle(Math.max(this.chosen, 0), true) : this.choose(this.chosen + 1);
    else if (event.key === "ArrowLeft") !row.more && row.node.children.length && open ? this.toggle(Math.max(this.chosen, 0), false) : this.choose(row.parent);
    else if (event.key === "Enter" || event.key === " ") this.toggle(Math.max(this.chosen, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  draw(from, to, shift) {
    const shown = this.rows.slice(from, to);
    const active = this.chosen >= from && this.chosen < to ? `${this.scroller.ariaLabel}-${this.chosen}`.replace(/\W/g, "-") : "";
    this.scroller.setAttribute("aria-activedescendant", active);
    const id = (at) => `${this.scroller.ariaLabel}-${at}`.replace(/\W/g, "-");
    render(html`<div class="shift" role="presentation">${shown.map((row, at) => this.line(row, from + at, id(from + at)))}</div>`, this.list.pane);
    const lines = this.list.pane.firstElementChild;
    lines.style.setProperty("--shift", `${-shift}px`);
    shown.forEach((row, at) => lines.children[at].style.setProperty("--depth", row.depth));
  }

  line(row, at, id) {
    const { node, depth } = row;
    if (row.more) {
      return html`<div class="row" role="treeitem" id=${id} aria-level=${depth + 1} aria-selected=${String(at === this.chosen)} @click=${() => this.choose(at)}>
        <span class="twist"></span><span class="none">and ${counted(row.more, "more")}</span></div>`;
    }
    const parent = node.children.length > 0;
    const open = parent && this.isOpen(node, depth);
    return html`<div class="row ${this.lit === node ? "lit" : ""}" role="treeitem" id=${id} aria-level=${depth + 1}
      aria-expanded=${parent ? String(open) : nothing} aria-selected=${String(at === this.chosen)}
      @mouseenter=${() => this.pointed(node, false)} @mouseleave=${() => this.pointed(null, false)}
      @click=${() => this.choose(at)} @dblclick=${() => this.toggle(at)}>
      <span class="twist" aria-hidden="true" @click=${() => this.toggle(at)}>${parent ? (open ? "▾" : "▸") : ""}</span>
      <span class="field"><bdi>${visible(node.name)}</bdi></span>
      <span class="value">${this.value(node)}</span>
      <span class="type">${visible(node.type ?? "")}</span></div>`;
  }

  value(node) {
    const note = node.note ? html` <span class="none"><bdi>${visible(node.note)}</bdi></span>` : nothing;
    if (node.value === null || node.value === undefined) {
      const inside = node.children.length + (node.more ?? 0);
      const many = inside && /^\[|array|\[\]/.test(node.type ?? "") ? html`<span class="none">${counted(inside, "element")}</span>` : nothing;
      return html`${inside ? many : html`<span class="none">null</span>`}${note}`;
    }
    const text = Array.isArray(node.value) ? "[]" : String(node.value); // the only array is an empty one: others have children
    return html`<bdi>${visible(text)}</bdi>${note}`;
  }

  close() {
    this.list.close();
  }
}
