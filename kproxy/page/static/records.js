/** The records of an exchange by partition: batches, then keys, values and headers, as in kproxy decode --records. */

import { cellText, count, counted, isoOf, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const AT_ONCE = 100; // records of a partition shown at first, and added by each click
const FEW = 3; // batches shown before the records; a click shows the others. In message formats 0 and 1 each record is a batch
const PARTITIONS = 50; // shown at first, and added by each click
const LONGEST = 300; // characters of a key or value

/** Return how many records all partitions have. */
export const recordCount = (partitions) => partitions.reduce((sum, one) => sum + (one.json?.count ?? one.json?.records?.length ?? 0), 0);

/** Draws the tables of records in an element. */
export class Records {
  constructor(place, partitions) {
    this.place = place;
    this.partitions = partitions;
    this.most = PARTITIONS;
    this.shown = new Map(); // partition -> how many of its records are shown
  }

  draw() {
    const left = this.partitions.length - this.most;
    render(
      html`${this.partitions.slice(0, this.most).map((one) => this.partition(one))}
        ${left > 0 ? html`<p><button @click=${() => this.more(() => { this.most += PARTITIONS; })}>${counted(left, "more partition")}</button></p>` : nothing}`,
      this.place,
    );
  }

  more(change) {
    change();
    this.draw();
  }

  partition(of) {
    const { path, json, in: side } = of;
    const { topic, topicId, partition: number, batches = [], records = [] } = json ?? {};
    const total = json?.count ?? records.length;
    const most = this.shown.get(of) ?? AT_ONCE;
    return html`<h3><bdi>${visible(topic ?? topicId ?? path)}</bdi>${number === undefined ? "" : `, partition ${number}`}: ${counted(total, "record")}</h3>
      <div class="note">${batches.slice(0, FEW).map(batch)}${side === "request" && total ? "Offsets count from 0 in each batch, as the producer sent it; the broker assigns the final ones (baseOffset in the response)." : nothing}
        ${batches.length > FEW ? html`<details><summary>${counted(batches.length - FEW, "more batch", "more batches")}</summary>
          ${batches.slice(FEW, AT_ONCE).map(batch)}${batches.length > AT_ONCE ? `and ${counted(batches.length - AT_ONCE, "more batch", "more batches")}` : nothing}</details>` : nothing}</div>
      ${records.length ? table(records.slice(0, most), `Records of ${visible(topic ?? "")}-${number ?? ""}`) : html`<p class="note">Their content is left out here. kproxy open --records shows it: of a capture, or of what Export saves as pcapng.</p>`}
      ${records.length > most ? html`<p><button @click=${() => this.more(() => this.shown.set(of, most + AT_ONCE))}>${count(Math.min(AT_ONCE, records.length - most))} more</button></p>` : nothing}
      ${records.length && total > Math.min(records.length, most) ? html`<p class="note">and ${counted(total - Math.min(records.length, most), "more")}</p>` : nothing}`;
  }
}

function batch(one) {
  const facts = [
    `offsets ${one.baseOffset ?? "?"} to ${one.lastOffset ?? "?"}`,
    one.sizeInBytes !== undefined && `${count(one.sizeInBytes)} bytes`,
    one.compression && one.compression !== "none" && one.compression,
    one.magic !== undefined && one.magic < 2 && `message format ${one.magic}`,
    one.isTransactional && "transactional",
    one.isControl && "control",
    one.producerId >= 0 && `producer ${one.producerId}, epoch ${one.producerEpoch}, sequence ${one.baseSequence}`,
    one.crcValid === false && "the CRC is wrong",
  ].filter(Boolean);
  return html`<span>Batch: ${visible(facts.join(" · "))}. </span>`;
}

function table(records, label) {
  return html`<div class="rows" tabindex="0" role="region" aria-label=${label}><table class="stacked">
    <thead><tr><th scope="col" class="number">offset</th><th scope="col">timestamp</th><th scope="col">key</th><th scope="col">value</th><th scope="col">headers</th></tr></thead>
    <tbody>${records.map((one) => html`<tr><td class="number">${one.offset ?? ""}</td><td class="short">${when(one.timestamp)}</td>
      <td class="mono" data-of="key">${content(one.key)}</td><td class="mono" data-of="value">${content(one.value)}</td>
      <td class="mono" data-of="headers">${(one.headers ?? []).map((header) => html`<div><bdi>${visible(cellText(header.key))}</bdi>: ${content(header.value)}</div>`)}</td></tr>`)}</tbody></table></div>`;
}

const when = (ms) => (typeof ms === "number" && ms >= 0 ? isoOf(BigInt(Math.round(ms)) * 1_000_000n).replace(/000Z$/, "Z") : "");

/** Draw what a schema describes, after the schema's name; or the problem, and the bytes. */
function bySchema({ framing, id, subject, version, problem, ...rest }) {
  const name = [subject ?? framing, version && `version ${version}`, !subject && id !== undefined && `schema ${id}`].filter(Boolean).join(" ");
  const shown = rest.value ?? rest.json ?? rest.hex;
  const text = typeof shown === "string" ? shown : JSON.stringify(shown);
  return html`<span class="none">${visible(name)}${problem ? `: ${visible(problem)}` : ""} </span><bdi>${visible(text ?? "null", LONGEST)}</bdi>`;
}

/** Draw a key or value: {text, size}, another form such as {json, size}, or null. */
function content(value) {
  if (value === null || value === undefined) return html`<span class="none">null</span>`;
  if (typeof value !== "object") return html`<bdi>${visible(String(value), LONGEST)}</bdi>`;
  if (value.schema) return bySchema(value.schema);
  const { size, ...forms } = value;
  const form = Object.entries(forms)[0];
  if (!form) return html`<span class="none">${counted(size ?? 0, "byte")}</span>`;
  const text = typeof form[1] === "object" ? JSON.stringify(form[1]) : String(form[1]);
  const kind = form[0] === "text" ? nothing : html`<span class="none">${visible(form[0])} </span>`;
  return text === "" ? html`<span class="none">empty</span>` : html`${kind}<bdi>${visible(text, LONGEST)}</bdi>`;
}
