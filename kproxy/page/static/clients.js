/** Clients: each with its software, latency, settings as its traffic shows them, and whether a broker upgrade would break it. */

import { get } from "./api.js";
import { answerTable, leftOutNote, objects, uncertainNote } from "./answer_table.js";
import { linksOf } from "./conditions.js";
import { AnswersView, KEYS as LIVE } from "./answers_view.js";
import { note, go } from "./route.js";
import { literal, named, sentence } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const FIRST = ["client_id", "software", "software_version", "addresses", "connections", "requests", "failed_requests", "role", "principal"];

const LATENCY = ["client_id", "api_name", "broker", "kind", "p50_ms", "p99_ms", "max_ms", "requests", "failed_requests", "throttled_ms", "is_broker"];

export const KEYS = [
  ["Tab Enter", "choose a client"],
  ["Esc", "all again"],
  ...LIVE,
];

export class Clients extends AnswersView {
  client = null; // id of the only client shown; null: all
  tables = [{}, {}, {}, {}];

  take({ client = null }) {
    this.client = client;
  }

  async ask(parameters) {
    const ids = ["inventory", "readiness", "explain", "latency"];
    [this.inventory, this.readiness, this.explain, this.latency] = await Promise.all(ids.map((id) => get(`analyses/${id}`, parameters)));
  }

  choose(row) {
    const at = this.inventory.columns.findIndex((column) => column.name === "client_id");
    const name = row[at] ?? "";
    this.show(this.client === name ? null : name);
  }

  /** Show one client, or all of them (null). */
  show(client) {
    this.client = client;
    note({ client });
    this.draw();
  }

  rowsOf(answer) {
    if (this.client === null) return answer;
    const rows = objects(answer);
    return { ...answer, rows: answer.rows.filter((_, at) => (rows[at].client_id ?? "") === this.client) };
  }

  draw() {
    const at = this.inventory.columns.findIndex((column) => column.name === "client_id");
    this.tables[0].chosen = this.client === null ? null : this.inventory.rows.find((row) => (row[at] ?? "") === this.client) ?? null;
    const redraw = () => this.draw();
    const isUnknown = this.client !== null && this.tables[0].chosen === null;
    render(
      html`<h2>Clients</h2>${this.spanBar()}${leftOutNote(this.inventory)}<p class="verdict">${sentence(this.inventory.verdict ?? "")}</p>
        ${answerTable(this.inventory, { label: "Clients", state: this.tables[0], redraw, chooses: (row) => this.choose(row), columns: FIRST })}
        ${this.client === null ? nothing : this.about(isUnknown)}
        ${isUnknown ? nothing : this.answers(redraw)}`,
      this.place,
    );
  }

  about(isUnknown) {
    const filter = `clientId == ${literal(this.client)}`;
    return html`<div class="bar" role="status">${isUnknown ? html`<span class="warning">No client with the id ${named(this.client)} was seen${this.last ? " in this time" : ""}.</span>` : html`<b>${named(this.client)}</b>
          <button @click=${() => go("exchanges", { filter })}>Exchanges</button>
          <button @click=${() => go("time", { filter })}>Time</button>`}
          <button @click=${() => this.show(null)}>All again</button></div>`;
  }

  /** Draw the tables about the shown client, or about all. */
  answers(redraw) {
    return html`<h2>How long they wait</h2>${uncertainNote(this.latency)}
        ${this.client === null ? html`<p class="verdict">${sentence(this.latency.verdict ?? "")}</p>` : nothing}
        ${answerTable(this.rowsOf(this.latency), { label: "Latency", state: this.tables[3], redraw, columns: LATENCY, links: (row) => linksOf(row, null, { names: ["client_id", "api_name", "broker"], sort: "-latencyMs" }) })}
        <h2>Ready for an upgrade</h2>${uncertainNote(this.readiness)}
        ${this.client === null ? html`<p class="verdict">${sentence(this.readiness.verdict ?? "")}</p>` : nothing}
        ${answerTable(this.rowsOf(this.readiness), { label: "Readiness", state: this.tables[1], redraw })}
        <h2>Settings, as the traffic shows them</h2>${uncertainNote(this.explain)}
        ${this.client === null ? html`<p class="muted">Choose a client above.</p>` : answerTable(this.rowsOf(this.explain), { label: "Settings", state: this.tables[2], redraw, columns: ["setting", "value", "certainty", "evidence", "others"] })}`;
  }

  key(event) {
    if (event.key !== "Escape" || this.client === null) return super.key(event);
    this.show(null);
    return true;
  }
}
