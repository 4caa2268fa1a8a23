/** Findings: what the analyses found wrong, the worst first, each with its evidence and what to do. */

import { get } from "./api.js";
import { answerTable, leftOutNote, uncertainNote } from "./answer_table.js";
import { linksOf } from "./conditions.js";
import { AnswersView, KEYS as LIVE } from "./answers_view.js";
import { note } from "./route.js";
import { counted, sentence, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const ORDER = ["critical", "warning", "notice", "info"];
const AT_ONCE = 3;

export const KEYS = [["Tab Enter", "open a finding"], ...LIVE];

export class Findings extends AnswersView {
  answers = []; // {analysis, answer, severity, table, open}
  failed = []; // {analysis, message}
  closed = false;

  take({ open = "" }) {
    this.opened = new Set(open.split(","));
  }

  /** Run all analyses. The findings of the last run are shown until all are done. */
  async ask(parameters) {
    this.analyses ??= await get("analyses");
    const waiting = this.analyses.filter((one) => one.finding ?? one.severity !== "info");
    const isFirst = this.expected === undefined;
    const found = { answers: [], failed: [] };
    this.expected = waiting.length;
    if (isFirst) Object.assign(this, found);
    const work = async () => {
      for (let one = waiting.shift(); one && !this.closed; one = waiting.shift()) {
        await this.run(one, parameters, found);
        if (isFirst && !this.closed) this.draw();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    Object.assign(this, found);
  }

  async run(analysis, parameters, found) {
    try {
      const answer = await get(`analyses/${analysis.id}`, parameters);
      const worst = severityOf(answer) ?? analysis.severity;
      const before = this.answers.find((one) => one.analysis.id === analysis.id);
      found.answers.push({ analysis, answer, severity: worst, table: before?.table ?? {}, open: before?.open ?? this.opened.has(analysis.id) });
    } catch (error) {
      found.failed.push({ analysis, message: error.message });
    }
  }

  draw() {
    if (this.closed) return;
    const rank = (one) => ORDER.indexOf(one.severity);
    const found = this.answers.filter((one) => one.answer.rows.length).sort((a, b) => rank(a) - rank(b) || (a.analysis.id < b.analysis.id ? -1 : 1));
    const done = this.answers.length + this.failed.length;
    const [certain, others] = [found.filter((one) => !one.answer.uncertain), found.filter((one) => one.answer.uncertain)];
    render(
      html`<h2>Findings</h2>${this.spanBar()}${leftOutNote(...this.answers.map((one) => one.answer))}
        <p role="status">${done < this.expected ? `${done} of ${this.expected} analyses done…` : `${counted(certain.length, "finding")}; ${others.length ? `${others.length} not certain; ` : ""}${this.expected - found.length} checks found nothing.`}</p>
        ${certain.map((one) => this.finding(one))}
        ${others.length ? html`<h3>Not certain, as exchanges are missing</h3>${others.map((one) => this.finding(one))}` : nothing}
        ${this.failed.map((one) => html`<p class="warning">${one.analysis.id}: <bdi>${visible(one.message)}</bdi></p>`)}`,
      this.place,
    );
  }

  finding(one) {
    const { analysis, answer, severity } = one;
    return html`<details class="finding" id="finding-${analysis.id}" ?open=${one.open} @toggle=${(event) => this.toggled(one, event.target.open)}>
      <summary>${answer.uncertain ? html`<span class="severity">not certain</span>` : html`<span class="severity ${severity}">${severity}</span>`}<span class="verdict">${sentence(answer.verdict || answer.title)}</span></summary>
      ${one.open ? html`<div>${uncertainNote(answer)}<p>${visible((analysis.meaning ?? "").trim())}</p>
        ${analysis.action ?? analysis["what to do"] ? html`<p><b>What to do:</b> ${visible((analysis.action ?? analysis["what to do"]).trim())}</p>` : nothing}
        ${answerTable(answer, { label: `Rows of ${analysis.id}`, state: one.table, redraw: () => this.draw(), links: (row, at) => linksOf(row, answer.numbers?.[at]) })}
        ${link(analysis.reference)}</div>` : nothing}</details>`;
  }

  /** Note in the URL which findings are open, so that the browser's back button returns to them. */
  toggled(one, open) {
    if (one.open === open) return;
    one.open = open;
    note({ open: this.answers.filter((each) => each.open).map((each) => each.analysis.id).join(",") });
    this.draw();
  }

  close() {
    this.closed = true;
    super.close();
  }
}

/** Return the severity of an answer, else the worst of its rows; null if there is none. */
function severityOf(answer) {
  const at = answer.columns.findIndex((column) => column.name === "severity");
  if (answer.severity) return answer.severity;
  return at < 0 ? null : ORDER.find((severity) => answer.rows.some((row) => row[at] === severity)) ?? null;
}

/** Link to Kafka's documentation; other references stay text. */
function link(reference) {
  if (!reference) return nothing;
  if (!/^https:\/\/([a-z-]+\.)?apache\.org\//.test(reference)) return html`<p class="note">${visible(reference)}</p>`;
  return html`<p><a href=${reference} rel="noreferrer noopener" target="_blank">${visible(reference)}</a></p>`;
}
