/** Time: a heat map of latency; exchanges, bytes and errors by API, client or topic. A selected span becomes a filter. */

import { get } from "./api.js";
import { say } from "./asking.js";
import { Brush, brushed, colourOfApi, colourOfOrder, datesOf, heatCells, stackedBars, timeScale } from "./charts.js";
import { isPhone } from "./columns.js";
import { joined, within } from "./conditions.js";
import { leftOutNote, missingMarks, missingSeries, missingSum } from "./answer_table.js";
import { AnswersView, KEYS as LIVE } from "./answers_view.js";
import { fragmentOf, go, note } from "./route.js";
import { bytes, count, duration, isoOf, literal, timeOfDay, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const BUCKETS = 80;
const LONGEST_US = 3_600_000_000; // levels beyond have no upper bound
const BY = ["api", "client", "topic", "error"];
const OF_SERIES = {
  api: (name) => (name === "?" ? "apiKey == null" : /^API \d+$/.test(name) ? `apiKey == ${name.slice(4)}` : `apiName == ${literal(name)}`),
  client: (name) => (name === "" ? 'clientId == null || clientId == ""' : `clientId == ${literal(name)}`),
  topic: (name) => `${literal(name)} in topics`,
  error: (name) => `errors.exists(e, e.name == ${literal(name)})`,
};
const MEASURES = [
  { id: "exchanges", title: "exchanges", format: count },
  { id: "bytes", title: "bytes", format: bytes },
  { id: "errors", title: "errors", format: count },
];

export const KEYS = [
  ["← →", "in a chart: move"],
  ["Shift ← →", "select a span"],
  ["Enter", "its exchanges"],
  ["z", "only this span in the charts"],
  ["Esc", "clear the selection"],
  ...LIVE,
];

export class Time extends AnswersView {
  brush = new Brush(() => this.draw(), () => this.showExchanges());

  isHeld() {
    return this.brush.origin !== null || Boolean(this.parameters.fromNs);
  }

  take(parameters) {
    const measure = MEASURES.some((one) => one.id === parameters.measure) ? parameters.measure : "exchanges"; // links may have any value
    const by = BY.includes(parameters.by) ? parameters.by : "api";
    this.parameters = { ...parameters, by, measure };
    this.brush.enter(parameters);
  }

  async ask(span) {
    const { filter, by, fromNs, toNs } = this.parameters;
    const parameters = { filter, buckets: isPhone() ? BUCKETS / 2 : BUCKETS, ...(fromNs ? { fromNs, toNs } : span) };
    [this.activity, this.heat] = await Promise.all([get("activity", { ...parameters, by }), get("heatmap", parameters)]);
  }

  change(changes) {
    this.parameters = { ...this.parameters, ...changes };
    note(changes, true);
    this.load();
  }

  /** Return the limits of the buckets in nanoseconds: all starts, and the end of the last. */
  ends(startsNs) {
    const starts = startsNs.map(BigInt);
    const last = BigInt(this.parameters.toNs || this.source.lastNs || 0);
    const step = starts.length > 1 ? starts[1] - starts[0] : 1n;
    const end = starts.length ? starts.at(-1) + step : last;
    return [...starts, end];
  }

  draw() {
    const { by, measure, filter } = this.parameters;
    render(
      html`${this.parameters.fromNs ? nothing : this.spanBar()}${leftOutNote(this.activity)}<div class="bar">
          <label>By <select @change=${(event) => this.change({ by: event.target.value })}>${BY.map((one) => html`<option ?selected=${one === by}>${one}</option>`)}</select></label>
          <label>Measure <select @change=${(event) => this.change({ measure: event.target.value })}>${MEASURES.map(({ id, title }) => html`<option value=${id} ?selected=${id === measure}>${title}</option>`)}</select></label>
          ${filter ? html`<span>of exchanges with <code><bdi>${visible(filter)}</bdi></code></span>` : nothing}${this.waysOut()}
        </div>
        <div class="bar" role="status">${this.spanText()}</div>
        ${this.activity.startsNs.length ? this.charts() : html`<p class="muted">There is no exchange with a time.</p>`}`,
      this.place,
    );
  }

  /** Draw buttons that remove the filter and the zoom. */
  waysOut() {
    const { fromNs, toNs, filter } = this.parameters;
    return html`<div class="bar">${fromNs || toNs ? html`<button @click=${() => this.change({ fromNs: null, toNs: null })}>All of the time</button>` : nothing}
      ${filter ? html`<button @click=${() => this.change({ filter: null })}>Clear filter</button>` : nothing}</div>`;
  }

  spanText() {
    if (!this.brush.span) return html`<span class="note">Drag over a chart, or focus it and press Shift with → or ←, to select exchanges.</span>`;
    const [from, to] = this.brush.span;
    return html`<span>${timeOfDay(isoOf(from))} to ${timeOfDay(isoOf(to))} (${duration(Number(to - from) / 1e6)})</span>
      <button @click=${() => this.showExchanges()}>Exchanges</button><button @click=${() => this.zoom()}>Zoom</button><button @click=${() => this.brush.clear()}>Clear</button>`;
  }

  charts() {
    const { measure } = this.parameters;
    const { width } = this;
    const how = MEASURES.find((one) => one.id === measure);
    const ends = this.ends(this.activity.startsNs);
    const scale = timeScale(ends[0], ends.at(-1), width);
    const heatEnds = this.ends(this.heat.startsNs);
    const heatScale = timeScale(heatEnds[0] ?? ends[0], heatEnds.at(-1) ?? ends.at(-1), width);
    const series = this.activity.series.map((one, at) => ({ name: one.name, values: one[measure], colour: this.colourOf(one.name, at) }));
    const whole = measure === "exchanges" && !this.parameters.filter; // only then missing exchanges can be counted too
    const marks = missingMarks(this.activity, scale, ends, 180);
    const used = this.heat.latencyUs.map((_, level) => this.heat.counts.some((column) => column[level]));
    const [low, high] = [Math.max(used.indexOf(true) - 1, 0), used.lastIndexOf(true) + 1]; // the levels that have requests
    const counts = this.heat.counts.map((column) => column.slice(low, high));
    const bounds = this.heat.latencyUs.slice(low, high).map((us) => (us > LONGEST_US ? "more" : duration(us / 1000)));
    return html`<h2>Latency</h2><figure>
        ${brushed({ scale: heatScale, height: 200, label: "Latency over time, a heat map", brush: this.brush, content: [missingMarks(this.heat, heatScale, heatEnds, 200), heatCells(heatScale, heatEnds, counts, bounds, 200)] })}
        <figcaption>From the first byte of a request to the last of its response; the stronger the colour, the more requests.</figcaption></figure>
      <h2>${how.title[0].toUpperCase()}${how.title.slice(1)} by ${this.parameters.by}</h2><figure>
        ${brushed({ scale, height: 180, label: `${how.title} over time`, brush: this.brush, content: [whole ? nothing : marks, stackedBars(scale, ends, whole ? [...series, ...missingSeries(this.activity)] : series, 180, how.format)] })}
        <figcaption>In each ${duration(Number(ends[1] - ends[0]) / 1e6)}; ${datesOf(scale)}.</figcaption></figure>
      ${this.legend()}`;
  }

  legend() {
    if (!this.activity.series.length && missingSum(this.activity) === null) return html`<p class="muted" role="status">${this.parameters.filter ? "No exchange of this time matches the filter." : "There is no exchange in this time."}</p>`;
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    return html`<div class="rows" tabindex="0" role="region" aria-label="Sums"><table class="legend">
      <thead><tr><th scope="col">${this.parameters.by}</th><th scope="col" class="number">exchanges</th><th scope="col" class="number">bytes</th><th scope="col" class="number">errors</th></tr></thead>
      <tbody>${this.activity.series.map((one, at) => html`<tr data-name=${visible(one.name ?? "")}><td><span class="swatch ${this.colourOf(one.name, at)}"></span> ${this.seriesLink(one.name)}</td>
        <td class="number">${count(sum(one.exchanges))}</td><td class="number">${bytes(sum(one.bytes))}</td><td class="number">${count(sum(one.errors))}</td></tr>`)}${this.missingRow()}</tbody></table></div>`;
  }

  missingRow() {
    const sum = missingSum(this.activity);
    return sum === null ? nothing : html`<tr data-name="not here"><td><span class="swatch missing"></span> not here</td><td class="number">${sum}</td><td></td><td></td></tr>`;
  }

  /** Return the class with the colour of a series. */
  colourOf(name, at) {
    if (name === "others") return "k-others";
    return this.parameters.by === "api" ? colourOfApi(name) : colourOfOrder(at);
  }

  /** Draw the name of a series, as a link if a filter can select its exchanges. */
  seriesLink(name) {
    const text = html`<bdi>${visible(name || "none")}</bdi>`;
    const condition = OF_SERIES[this.parameters.by]?.(name);
    if (!condition || name === "others") return text;
    return html`<a href=${fragmentOf("exchanges", { filter: this.among(condition, this.isNarrowed && this.whole) })}>${text}</a>`;
  }

  /** Whether the charts show only a part of the time. */
  get isNarrowed() {
    return Boolean(this.parameters.fromNs || this.parameters.toNs || this.last);
  }

  /** Begin and end of the charts. */
  get whole() {
    const ends = this.ends(this.activity.startsNs);
    return [ends[0], ends.at(-1)];
  }

  /** Return the filter for the exchanges counted here that also meet a condition, within a span if there is one. */
  among(condition, span) {
    return joined(this.parameters.filter, condition, span && within(...span));
  }

  showExchanges() {
    if (!this.brush.span) return say("Select a span first.");
    go("exchanges", { filter: this.among(null, this.brush.span) });
  }

  zoom() {
    if (!this.brush.span) return;
    const [fromNs, toNs] = this.brush.span;
    this.brush.span = this.brush.cursor = null;
    this.change({ fromNs: String(fromNs), toNs: String(toNs), selected: null });
  }

  key(event) {
    if (event.key !== "z") return this.parameters.fromNs ? false : super.key(event);
    this.zoom();
    return true;
  }
}
