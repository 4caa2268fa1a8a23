/** Map: who writes to which topic and who reads it, as a graph and as a table. */

import { get } from "./api.js";
import { answerTable, leftOutNote, objects, uncertainNote } from "./answer_table.js";
import { colourOfApi } from "./charts.js";
import { linksOf } from "./conditions.js";
import { AnswersView, KEYS as LIVE } from "./answers_view.js";
import { go, note } from "./route.js";
import { apart, count, counted, literal, named, sentence, visible } from "./text.js";
import { html, nothing, render, svg } from "./lit-html.js";

const MOST = 40; // nodes in a column
const ROW = 30;
const NODE = 22;
const FIRST = ["client_id", "direction", "topic", "records", "groups", "software", "software_version", "addresses", "topic_use", "apis"];
const KINDS = { writer: "client that writes", topic: "topic", reader: "group or client that reads" };

export const KEYS = [
  ["Tab", "next client, topic or group"],
  ["Enter", "what is connected with it"],
  ["Esc", "all again"],
  ...LIVE,
];

export class TrafficMap extends AnswersView {
  chosen = null; // [column, name]
  table = {};

  take({ writer, topic, reader }) {
    this.chosen = Object.entries({ writer, topic, reader }).find(([, name]) => name !== undefined) ?? null;
  }

  async ask(parameters) {
    this.answer = await get("analyses/map", parameters);
    this.edges = edgesOf(objects(this.answer));
  }

  draw() {
    const rows = this.chosenRows();
    this.isKnown = this.chosen !== null && rows.rows.length > 0;
    render(
      html`<h2>Who writes and reads what</h2>${this.spanBar()}${leftOutNote(this.answer)}${uncertainNote(this.answer)}<p class="verdict">${sentence(this.answer.verdict ?? "")}</p>
        ${this.edges.length ? html`<figure>${this.graph()}<figcaption>Clients that write, topics, and groups or clients that read; the thicker, the more records.</figcaption></figure>` : html`<p class="muted">No records were written or read.</p>`}
        ${this.chosen ? this.about() : nothing}
        ${this.chosen && !this.isKnown ? nothing : html`<h2>${this.chosen ? "Of these" : "All"}</h2>${answerTable(rows, { label: "Map", state: this.table, redraw: () => this.draw(), columns: FIRST, links: (row) => linksOf(row, null, { names: ["client_id", "topic"] }) })}`}`,
      this.place,
    );
  }

  chosenRows() {
    if (!this.chosen) return this.answer;
    const [column, name] = this.chosen;
    const rows = objects(this.answer);
    const kept = this.answer.rows.filter((_, at) => touches(rows[at], column, name));
    return { ...this.answer, rows: kept };
  }

  about() {
    const [column, name] = this.chosen;
    const all = html`<button @click=${() => this.choose(null)}>All again</button>`;
    if (!this.isKnown) return html`<div class="bar" role="status"><span class="warning">No ${KINDS[column]} with the name ${named(name)} was seen${this.last ? " in this time" : ""}.</span>${all}</div>`;
    const show = html`<button @click=${() => go("exchanges", { filter: this.filterOf(column, name) })}>Exchanges</button>`;
    return html`<div class="bar" role="status"><b>${named(name)}</b>
      <span>${counted(this.edges.filter((one) => one[column] === name).length, "connection")}</span>${show}${all}</div>`;
  }

  filterOf(column, name) {
    if (column === "topic") return `${literal(name)} in topics`;
    const clients = new Set(this.edges.filter((one) => one[column] === name).flatMap((one) => one.clients));
    return `clientId in [${[...clients].map(literal).join(", ")}]`;
  }

  choose(what) {
    this.chosen = what;
    note({ writer: null, topic: null, reader: null, ...(what ? { [what[0]]: what[1] } : {}) });
    this.draw();
  }

  graph() {
    const { width } = this;
    const columns = ["writer", "topic", "reader"].map((column) => ranked(this.edges, column).slice(0, MOST));
    const rows = Math.max(...columns.map((column) => column.length));
    const height = 24 + rows * ROW;
    const box = Math.min(width * 0.3, 260);
    const left = [0, (width - box) / 2, width - box];
    const y = (column, name) => 24 + ((columns[column].indexOf(name) + 0.5) * rows * ROW) / columns[column].length;
    const titles = ["write", "topics", "read"];
    const edges = this.edges.map((edge) => this.edge(edge, columns, left, box, y));
    const nodes = columns.flatMap((names, column) => names.map((name) => this.node(name, column, left[column], y(column, name), box)));
    return svg`<svg class="map" width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="group" aria-label="Graph of clients, topics and groups">
      ${titles.map((title, at) => svg`<text class="column" x=${left[at] + box / 2} y="12" text-anchor="middle">${title}</text>`)}${edges}${nodes}</svg>`;
  }

  edge(edge, columns, left, box, y) {
    const side = edge.writer !== null ? 0 : 2;
    const name = edge.writer ?? edge.reader;
    if (!columns[side].includes(name) || !columns[1].includes(edge.topic)) return nothing;
    const [from, to] = side === 0 ? [left[0] + box, left[1]] : [left[1] + box, left[2]];
    const [a, b] = side === 0 ? [y(0, name), y(1, edge.topic)] : [y(1, edge.topic), y(2, name)];
    const middle = (from + to) / 2;
    const faded = this.isKnown && edge[this.chosen[0]] !== this.chosen[1];
    return svg`<path class="edge ${side === 0 ? `writes ${colourOfApi("Produce")}` : `reads ${colourOfApi("Fetch")}`} ${faded ? "faded" : ""}" stroke-width=${(1 + Math.min(Math.log10(edge.records + 1), 6)).toFixed(1)}
      d="M${from} ${a}C${middle} ${a} ${middle} ${b} ${to} ${b}"><title>${apart(name)} ${side === 0 ? "wrote" : "read"} ${count(edge.records)} ${side === 0 ? "to" : "from"} ${apart(edge.topic)}</title></path>`;
  }

  node(name, column, x, y, box) {
    const kind = ["writer", "topic", "reader"][column];
    const chosen = this.chosen?.[0] === kind && this.chosen[1] === name;
    const faded = this.isKnown && !chosen && !this.edges.some((one) => one[kind] === name && one[this.chosen[0]] === this.chosen[1]);
    const choose = () => this.choose(chosen ? null : [kind, name]);
    const text = visible(name || "(no client id)");
    return svg`<g class="node ${chosen ? "chosen" : ""} ${faded ? "faded" : ""}" tabindex="0" role="button" aria-pressed=${String(chosen)} aria-label="${["writes", "topic", "reads"][column]}: ${text}"
      @click=${choose} @keydown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } }}>
      <rect x=${x} y=${y - NODE / 2} width=${box} height=${NODE} rx="4"></rect>
      <foreignObject x=${x + 8} y=${y - NODE / 2} width=${box - 12} height=${NODE}><div class="label">${text}</div></foreignObject><title>${text}</title></g>`;
  }

  key(event) {
    if (event.key !== "Escape" || !this.chosen) return super.key(event);
    this.choose(null);
    return true;
  }
}

/** Return the analysis as edges {writer or reader, topic, records, clients}; members of a group are one reader. */
function edgesOf(rows) {
  const edges = new Map();
  for (const row of rows) {
    if (row.topic === null || !["produce", "fetch", "replicate", "subscribe"].includes(row.direction)) continue;
    const writes = row.direction === "produce";
    const groups = groupsOf(row);
    for (const party of writes ? [row.client_id ?? ""] : groups.length ? groups : [row.client_id ?? ""]) {
      const key = JSON.stringify([writes, party, row.topic]);
      const edge = edges.get(key) ?? { writer: writes ? party : null, reader: writes ? null : party, topic: row.topic, records: 0, clients: [] };
      edge.records += Number(row.records ?? 0);
      edge.clients.push(row.client_id ?? "");
      edges.set(key, edge);
    }
  }
  return [...edges.values()];
}

const groupsOf = (row) => (Array.isArray(row.groups) ? row.groups : row.groups ? [row.groups] : []);

function touches(row, column, name) {
  if (column === "topic") return row.topic === name;
  if (column === "writer") return row.direction === "produce" && (row.client_id ?? "") === name;
  return row.direction !== "produce" && (groupsOf(row).includes(name) || (row.client_id ?? "") === name);
}

function ranked(edges, column) {
  const sums = new Map();
  for (const edge of edges) if (edge[column] !== null) sums.set(edge[column], (sums.get(edge[column]) ?? 0) + edge.records + 1);
  return [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
}
