/** One exchange: what its errors mean, its fields next to its bytes, its records, its text. */

import { get, getBytes } from "./api.js";
import { say } from "./asking.js";
import { Hex } from "./hex.js";
import { recordCount, Records } from "./records.js";
import { pathToByte, Tree } from "./tree.js";
import { fragmentOf } from "./route.js";
import { apart, bytes, counted, duration, isolated, named, sentence, timeText, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const SIDES = ["request", "response"];
const MOST_LISTED = 20; // names in a tooltip
const listed = (names) => names.slice(0, MOST_LISTED).map(apart).join(", ") + (names.length > MOST_LISTED ? ", …" : "");

class Detail {
  /** The buttons call `close()`, `step(by)`, `only(column)`, `not(column)`, `mark()` and `stop()` (null: no such button). */
  constructor(place, doings) {
    this.place = place;
    this.doings = doings;
    this.exchange = null;
    this.tab = "request";
    this.tree = null;
    this.hex = null;
  }

  show(exchange) {
    this.exchange = exchange;
    if (!this.tabs().some((one) => one.id === this.tab)) this.tab = this.tabs()[0].id;
    this.draw();
  }

  tabs() {
    const { request, response, records } = this.exchange;
    const tabs = [];
    if (request) tabs.push({ id: "request", title: `Request, ${bytes(request.size)}` });
    if (response) tabs.push({ id: "response", title: `Response, ${bytes(response.size)}` });
    if (records?.length) tabs.push({ id: "records", title: counted(recordCount(records), "record") });
    tabs.push({ id: "text", title: "Text" });
    return tabs;
  }

  choose(tab) {
    this.tab = tab;
    this.draw();
    this.place.querySelector(`#tab-${tab}`)?.focus();
  }

  turned(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const ids = this.tabs().map((one) => one.id);
    event.preventDefault();
    this.choose(ids[(ids.indexOf(this.tab) + by + ids.length) % ids.length]);
  }

  draw() {
    const { number, row, errors } = this.exchange;
    this.tree?.close();
    this.hex?.close();
    this.tree = this.hex = null;
    render(
      html`<div class="top">
          <button class="plain back" aria-label="Back to the table" @click=${() => this.doings.close()}>‹</button>
          <h2>#${number} ${named(row.apiName ?? `API ${row.apiKey ?? "?"}`)} v${row.apiVersion ?? "?"} · <a href=${fragmentOf("clients", { client: row.clientId })} title="This client, in Clients">${named(row.clientId)}</a>
            <span class="muted">· ${row.requestAt ? `${timeText(row.requestAt).replace("T", " ").replace("Z", " UTC")} · ` : ""}${row.client ?? ""} → ${row.broker ?? ""}${typeof row.latencyMs === "number" ? ` · ${duration(row.latencyMs)}` : ""}</span></h2>
          <div class="tabs" role="tablist" aria-label="Parts of the exchange" @keydown=${(event) => this.turned(event)}>
            ${this.tabs().map((one) => html`<button role="tab" id="tab-${one.id}" aria-selected=${String(one.id === this.tab)} aria-controls="part"
              tabindex=${one.id === this.tab ? 0 : -1} @click=${() => this.choose(one.id)}>${one.title}</button>`)}
          </div>
          <div class="actions">
            <button @click=${() => this.doings.only("clientId")}>Only this client</button>
            <button @click=${() => this.doings.only("connection")}>Only this connection</button>
            ${row.topics?.length ? html`<button title=${listed(row.topics)} @click=${() => this.doings.only("topics")}>${row.topics.length > 1 ? "Only these topics" : "Only this topic"}</button>` : nothing}
            ${row.groups?.length ? html`<button title=${listed(row.groups)} @click=${() => this.doings.only("groups")}>${row.groups.length > 1 ? "Only these groups" : "Only this group"}</button>` : nothing}
            <button @click=${() => this.doings.not("apiName")}>Not ${visible(row.apiName ?? "this API")}</button>
            <button @click=${() => this.doings.mark()}>Compare</button>
            ${this.doings.stop ? html`<button @click=${() => this.doings.stop()}>Stop such…</button>` : nothing}
            <button class="plain" aria-label="Previous exchange" @click=${() => this.doings.step(-1)}>↑</button>
            <button class="plain" aria-label="Next exchange" @click=${() => this.doings.step(1)}>↓</button>
            <button class="plain close" aria-label="Close" @click=${() => this.doings.close()}>✕</button>
          </div>
        </div>
        ${this.damage()}
        ${errors?.length ? html`<ul class="errors" tabindex="0" aria-label="What the error codes mean">${errors.map(meaning)}</ul>` : nothing}
        <div class="${SIDES.includes(this.tab) ? "sides" : "inside"}" id="part" role="tabpanel" aria-labelledby="tab-${this.tab}" tabindex=${SIDES.includes(this.tab) ? -1 : 0}>${this.part()}</div>`,
      this.place,
    );
    if (SIDES.includes(this.tab)) this.connect(this.exchange[this.tab]);
    if (this.tab === "records") new Records(this.place.querySelector(".partitions"), this.exchange.records).draw();
  }

  damage() {
    const { row } = this.exchange;
    const side = this.exchange[this.tab];
    const problems = [
      row.undecoded && `Not decoded: ${row.undecoded}`,
      row.unanswered && `Not answered: ${row.unanswered}`,
      row.edited?.length && `${row.edited.join(", ")}; each message is shown as its sender sent it`,
      side?.cut && `${counted(side.cut, "byte is", "bytes are")} missing`,
      side?.trailing && `${counted(side.trailing, "byte")} after the message`,
      side?.note,
    ].filter(Boolean);
    return problems.length ? html`<p class="said warning empty-line">${problems.map((one) => html`<span>${sentence(one)} </span>`)}</p>` : nothing;
  }

  part() {
    if (SIDES.includes(this.tab)) return html`<div class="fields"></div><div class="hex"></div>`;
    if (this.tab === "records") return html`<div class="partitions"></div>`;
    return html`${SIDES.filter((side) => this.exchange[side]?.rendered).map(
      (side) => html`<h3>${side === "request" ? "Request" : "Response"}</h3><pre>${plain(this.exchange[side].rendered)}</pre>`,
    )}`;
  }

  connect(side) {
    const label = this.tab === "request" ? "request" : "response";
    const fields = this.place.querySelector(".fields");
    const place = this.place.querySelector(".hex");
    this.tree = new Tree(fields, `Fields of the ${label}`, (node, pinned) => this.nodePointed(node, pinned));
    this.tree.show(side.tree ?? { name: label, type: "", value: null, start: null, end: null, children: [], more: 0, note: "not decoded" });
    if (side.bytes === null && !side.apart) return render(html`<p class="empty">The source has no bytes.</p>`, place);
    this.hex = new Hex(place, `Bytes of the ${label}`, (offset, pinned) => this.bytePointed(offset, pinned));
    if (side.bytes !== null) this.hex.show(Uint8Array.from(atob(side.bytes), (one) => one.charCodeAt(0)));
    else this.load(this.hex, this.tab);
  }

  /** Get bytes that are too many to be part of the answer about the exchange. */
  async load(hex, side) {
    try {
      const data = await getBytes(`exchanges/${this.exchange.number}/${side}`);
      if (this.hex === hex) hex.show(data);
    } catch (error) {
      if (this.hex === hex) say(error.message);
    }
  }

  nodePointed(node, pinned) {
    if (!this.hex) return;
    const around = node && enclosing(this.tree.root, node);
    this.hex.light(around?.start ?? 0, around?.end ?? 0, pinned);
  }

  bytePointed(offset, pinned) {
    if (offset === null) return this.tree.light(null);
    if (pinned) return this.tree.find(offset);
    this.tree.light(pathToByte(this.tree.root, offset).at(-1));
  }

  close() {
    this.tree?.close();
    this.hex?.close();
  }
}

/** Return the node, or the innermost one around it that has a place in the bytes; fields decoded inside a bytes field have none. */
function enclosing(root, node) {
  const path = pathTo(root, node) ?? [];
  return path.findLast((one) => one.start !== null) ?? null;
}

function pathTo(root, node) {
  if (root === node) return [root];
  for (const child of root.children) {
    const path = pathTo(child, node);
    if (path) return [root, ...path];
  }
  return null;
}

function meaning({ code, name, meaning: text, retriable, clients }) {
  const what = retriable === true ? "Clients retry it" : retriable === false ? "Clients do not retry it" : "Clients";
  return html`<li><b>${visible(name ?? String(code))}</b> (${code}) ${sentence(text ?? "")}
    ${clients ? html`${what}: <bdi>${visible(clients)}</bdi>.` : `${what}.`}</li>`;
}

/** Make text of several lines safe, line by line. */
const plain = (text) => isolated(text.split("\n").map((line) => visible(line, 20_000)).join("\n"));

/** Shows the exchange below the table. It asks for one exchange at a time; the user may move on faster, and sees the last one. */
export class Opened {
  /** `doings` are those of Detail, and `opened(number)`, called once an exchange is shown. */
  constructor(place, doings) {
    this.place = place;
    this.doings = doings;
    this.number = null; // number of the shown exchange
    this.wanted = null; // number of the exchange to show
    this.asking = null; // promise that ends when the wanted exchange is shown
    this.detail = new Detail(place, doings);
  }

  /** Show an exchange; with `focus`, move the focus into it. */
  async show(number, focus) {
    this.wanted = number;
    this.asking ??= this.ask().finally(() => { this.asking = null; });
    await this.asking;
    if (focus && this.number === number) this.place.querySelector("[role=tab][aria-selected=true]")?.focus();
  }

  async ask() {
    while (this.wanted !== null && this.wanted !== this.number) {
      const number = this.wanted;
      try {
        const exchange = await get(`exchanges/${number}`);
        if (this.wanted !== number) continue;
        this.number = number;
        this.place.hidden = false;
        this.detail.show(exchange);
        this.doings.opened(number);
      } catch (error) {
        if (this.wanted !== number) continue;
        this.wanted = this.number;
        say(error.message);
      }
    }
  }

  /** Return the row of an exchange with all columns, asking the server if the exchange is not shown. */
  async rowOf(number) {
    const { exchange } = this.detail;
    return exchange?.number === number ? exchange.row : (await get(`exchanges/${number}`)).row;
  }

  close() {
    this.place.hidden = true;
    this.detail.close();
    this.number = this.wanted = null;
  }
}
