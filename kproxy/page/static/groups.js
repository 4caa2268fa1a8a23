/** Groups: when and why each rebalanced, and how many records it is behind. */

import { get } from "./api.js";
import { answerTable, leftOutNote, objects, uncertainNote } from "./answer_table.js";
import { Brush, brushed, colourOfOrder, datesOf, stepLines, timeAxis, timeScale } from "./charts.js";
import { isPhone } from "./columns.js";
import { linksOf, within } from "./conditions.js";
import { AnswersView, KEYS as LIVE } from "./answers_view.js";
import { go } from "./route.js";
import { apart, count, counted, nsOf, sentence, visible } from "./text.js";
import { html, nothing, render, svg } from "./lit-html.js";

const LANE = 26;
const MOST_LANES = 30;
const LANE_NAME = 40; // characters of a group's name
const MOST_LINES = 12;
const FIRST_ON_A_PHONE = ["group_id", "cause", "evidence", "began_at", "pause_ms", "client_id"];
const FIRST = ["began_at", "group_id", "cause", "client_id", "evidence", "pause_ms", "duration_ms", "moved"];

export const KEYS = [["Shift ← →", "in a chart: select a span; Enter shows its exchanges"], ...LIVE];

export class Groups extends AnswersView {
  tables = [{}, {}];
  brush = new Brush(() => this.draw(), () => go("exchanges", { filter: within(...this.brush.span) }));

  isHeld() {
    return this.brush.origin !== null;
  }

  take(parameters) {
    this.brush.enter(parameters);
  }

  async ask(parameters) {
    const paths = ["analyses/rebalances", "analyses/lag", "groups"];
    [this.rebalances, this.lag, this.groups] = await Promise.all(paths.map((path) => get(path, parameters)));
  }

  draw() {
    const scale = timeScale(...this.shownTime, this.width);
    const span = this.brush.span ? html`<div class="bar" role="status"><button @click=${() => this.brush.taken()}>Exchanges of the span</button><button @click=${() => this.brush.clear()}>Clear</button></div>` : nothing;
    const last = { ...this.lag, rows: this.lag.rows.filter((_, at) => objects(this.lag)[at].is_last !== false) };
    render(
      html`${this.before()}<h2>Rebalances</h2>${this.spanBar()}${leftOutNote(this.rebalances)}${uncertainNote(this.rebalances)}<p class="verdict">${sentence(this.rebalances.verdict ?? "")}</p>${span}
        ${this.rebalances.rows.length ? this.timeline(scale) : nothing}
        ${answerTable(this.rebalances, { label: "Rebalances", state: this.tables[0], redraw: () => this.draw(), columns: isPhone() ? FIRST_ON_A_PHONE : FIRST, links: (row) => linksOf(row, null, { names: ["group_id"] }) })}
        <h2>Lag</h2>${uncertainNote(this.lag)}<p class="verdict">${sentence(this.lag.verdict ?? "")}</p>
        ${this.lagChart(scale)}
        ${answerTable(last, { label: "Lag", state: this.tables[1], redraw: () => this.draw(), links: (row) => linksOf(row, null, { names: ["group_id"] }) })}`,
      this.place,
    );
  }

  /** List groups whose members joined before the first exchange here: no analysis shows them. */
  before() {
    const quiet = this.groups.groups.filter((one) => !one.joined);
    if (!quiet.length) return nothing;
    return html`<h2>Groups from before</h2><p class="note">Their members joined before what is shown here began.</p>
      <ul>${quiet.map((one) => html`<li><bdi>${visible(one.name, LANE_NAME)}</bdi>: ${counted(one.clients, "client id")}, ${counted(one.exchanges, "exchange")}</li>`)}</ul>`;
  }

  timeline(scale) {
    const rows = objects(this.rebalances);
    const groups = [...new Set(rows.map((row) => row.group_id))].slice(0, MOST_LANES);
    const causes = [...new Set(rows.map((row) => row.cause ?? "unknown"))];
    const height = groups.length * LANE + 14;
    const lanes = groups.map((group, at) => svg`<text x="60" y=${at * LANE + 11}>${visible(group ?? "", LANE_NAME)}</text>`);
    const bars = rows.map((row) => {
      const lane = groups.indexOf(row.group_id);
      if (lane < 0 || !row.began_at) return nothing;
      const began = nsOf(row.began_at);
      const ended = row.ended_at ? nsOf(row.ended_at) : began;
      if (ended < scale.fromNs || began > scale.toNs) return nothing;
      return svg`<rect class="k ${colourOfOrder(causes.indexOf(row.cause ?? "unknown"))}" data-group=${visible(row.group_id ?? "")} x=${scale.x(began).toFixed(1)} y=${lane * LANE + 14} width=${Math.max(scale.x(ended) - scale.x(began), 3).toFixed(1)} height="10" rx="1.5"><title>${visible(row.cause ?? "unknown")}: ${apart(row.evidence ?? "")}</title></rect>`;
    });
    return html`<figure>${brushed({ scale, height, label: "Rebalances over time", brush: this.brush, content: svg`${timeAxis(scale, height)}${lanes}${bars}` })}
      <figcaption>${datesOf(scale)} ${causes.map((cause, at) => html`<span><span class="swatch ${colourOfOrder(at)}"></span> <bdi>${visible(cause)}</bdi> </span>`)}</figcaption></figure>`;
  }

  lagChart(scale) {
    const lines = new Map();
    for (const row of objects(this.lag)) {
      if (row.lag === null || row.at_ms === null) continue;
      const name = `${row.group_id} on ${row.topic}-${row.partition}`;
      const line = lines.get(name) ?? { name, points: [] };
      line.points.push({ ns: BigInt(Math.round(Number(row.at_ms))) * 1_000_000n, value: Number(row.lag) });
      lines.set(name, line);
    }
    const worst = (line) => Math.max(...line.points.map((point) => point.value));
    const series = [...lines.values()].filter((line) => worst(line) > 0).sort((a, b) => worst(b) - worst(a)).slice(0, MOST_LINES);
    if (!series.length) return nothing;
    for (const line of series) line.points.sort((a, b) => (a.ns < b.ns ? -1 : 1));
    return html`<figure>${brushed({ scale, height: 160, label: "Records behind over time", brush: this.brush, content: stepLines(scale, series, 160, count) })}
      <figcaption>${series.map((one, at) => html`<span><span class="swatch ${colourOfOrder(at)}"></span> <bdi>${visible(one.name)}</bdi> </span>`)}</figcaption></figure>`;
  }
}
