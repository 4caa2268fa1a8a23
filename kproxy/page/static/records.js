/** Records of an exchange, by partition: their batches, then key, value and headers, as kproxy decode --records has them. */

import { cellText, count, counted, isoOf, visible } from "./text.js";
import { html, nothing } from "./lit-html.js";

const MOST = 500; // records of a partition
const LONGEST = 300; // characters of a key or value

/** How many there are in all partitions. */
export const recordCount = (partitions) => partitions.reduce((sum, one) => sum + (one.json?.count ?? one.json?.records?.length ?? 0), 0);

export const recordTables = (partitions) => html`${partitions.map(partition)}`;

function partition({ path, json }) {
  const { topic, topicId, partition: number, batches = [], records = [] } = json ?? {};
  const total = json?.count ?? records.length;
  return html`<h3><bdi>${visible(topic ?? topicId ?? path)}</bdi>${number === undefined ? "" : `, partition ${number}`}: ${counted(total, "record")}</h3>
    <p class="note">${batches.map(batch)}</p>
    ${records.length ? table(records, `Records of ${visible(topic ?? "")}-${number ?? ""}`) : html`<p class="note">Their content is not kept; kproxy open --records keeps it.</p>`}
    ${records.length && total > Math.min(records.length, MOST) ? html`<p class="note">and ${counted(total - Math.min(records.length, MOST), "more")}</p>` : nothing}`;
}

function batch(one) {
  const said = [
    `offsets ${one.baseOffset ?? "?"} to ${one.lastOffset ?? "?"}`,
    one.sizeInBytes !== undefined && `${count(one.sizeInBytes)} bytes`,
    one.compression && one.compression !== "none" && one.compression,
    one.magic !== undefined && one.magic < 2 && `message format ${one.magic}`,
    one.isTransactional && "transactional",
    one.isControl && "control",
    one.producerId >= 0 && `producer ${one.producerId}, epoch ${one.producerEpoch}, sequence ${one.baseSequence}`,
    one.crcValid === false && "the CRC is wrong",
  ].filter(Boolean);
  return html`<span>Batch: ${visible(said.join(" · "))}. </span>`;
}

function table(records, label) {
  return html`<div class="rows" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr><th scope="col" class="number">offset</th><th scope="col">timestamp</th><th scope="col">key</th><th scope="col">value</th><th scope="col">headers</th></tr></thead>
    <tbody>${records.slice(0, MOST).map((one) => html`<tr><td class="number">${one.offset ?? ""}</td><td class="short">${when(one.timestamp)}</td>
      <td class="mono">${content(one.key)}</td><td class="mono">${content(one.value)}</td>
      <td class="mono">${(one.headers ?? []).map((header) => html`<div><bdi>${visible(cellText(header.key))}</bdi>: ${content(header.value)}</div>`)}</td></tr>`)}</tbody></table></div>`;
}

const when = (ms) => (typeof ms === "number" && ms >= 0 ? isoOf(BigInt(Math.round(ms)) * 1_000_000n).replace(/000Z$/, "Z") : "");

/** A key or value: {text, size}, or in another form than text; null. */
function content(value) {
  if (value === null || value === undefined) return html`<span class="none">null</span>`;
  if (typeof value !== "object") return html`<bdi>${visible(String(value), LONGEST)}</bdi>`;
  const { size, ...forms } = value;
  const form = Object.entries(forms)[0];
  if (!form) return html`<span class="none">${counted(size ?? 0, "byte")}</span>`;
  const text = typeof form[1] === "object" ? JSON.stringify(form[1]) : String(form[1]);
  const kind = form[0] === "text" ? nothing : html`<span class="none">${visible(form[0])} </span>`;
  return text === "" ? html`<span class="none">empty</span>` : html`${kind}<bdi>${visible(text, LONGEST)}</bdi>`;
}
