/** One stopped message: what it is, how long it waits, what can be done with it, and its text to edit. */

import { Refused } from "./api.js";
import { chooseError } from "./error_choice.js";
import { EditedText, hexLines } from "./edited_text.js";
import { count, counted, named, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const PAUSE_MS = 300; // in typing, before the server is asked
const MORE_S = 60; // that "keep" and editing ask for
const SOON_MS = 30_000; // with less time than this left, editing asks for more
const FORMS = [
  { id: "json", title: "JSON", label: "The message as Kafka's JSON" },
  { id: "hex", title: "Hex", label: "The message's bytes in hex" },
];
const GONE = "It is not stopped any more: its time was over, its connection has closed, or another page has decided. What is below was not sent.";
const DROP = {
  none: "Forget it. It is a Produce with acks=0, to which the client expects no response.",
  request: "Forget it. As no other response may take its place, all that the client sends behind it on this connection is forgotten as well.",
  response: "Forget it. All responses behind it on this connection are forgotten as well, as the client would take one for the other.",
};

/** "Produce v9 request" */
export const titleOf = (stop) => `${stop.api} v${stop.apiVersion} ${stop.direction}`;

export class StopEditor {
  /** `left()` closes it, `toList()` gives the focus back to the list, `done({stop, action, more, changed, rule})` tells what was decided. */
  constructor(place, stopped, doings) {
    this.place = place;
    this.stopped = stopped;
    this.doings = doings;
    this.stop = null;
    this.text = null; // EditedText
  }

  get isOpen() {
    return this.stop !== null;
  }

  /** Show a stop. Throws Refused where it went on. */
  async show(id) {
    const stop = await this.stopped.look(id);
    this.close();
    this.stop = stop;
    this.form = "json";
    this.shown = this.textOf(stop); // of each form, before it is edited
    this.verdict = null; // of the check of {text}: {changed, size, json, hex} or {error}; null: the text is what came
    this.checking = false;
    this.busy = false;
    this.gone = false;
    this.asked = null;
    this.problem = null;
    this.place.hidden = false;
    this.draw();
    this.text = new EditedText(this.place.querySelector(".text"), {
      typed: () => this.typed(),
      sent: () => this.send(),
      left: () => this.doings.toList(),
    });
    this.showText(this.shown.json);
  }

  textOf({ json, hex }) {
    return { json, hex: hexLines(hex) };
  }

  showText(text) {
    this.text.show(text, FORMS.find((one) => one.id === this.form).label);
  }

  close() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.stop = this.text = null;
    render(nothing, this.place);
    this.place.hidden = true;
  }

  /** What is stopped has changed. */
  renewed() {
    if (!this.stop || this.gone || this.stopped.problem !== null) return;
    const stop = this.stopped.find(this.stop.id);
    if (stop) this.stop = { ...this.stop, resumesMs: stop.resumesMs };
    else if (this.stopped.total <= this.stopped.stops.length && !this.busy) this.goneNow();
    this.draw();
  }

  goneNow() {
    this.gone = true;
    this.text?.freeze();
    this.draw();
  }

  edited() {
    return { [this.form]: this.text.text };
  }

  typed() {
    this.problem = null;
    this.checking = true;
    this.asking?.abort();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
    this.stay();
    this.draw();
  }

  /** Ask for more time, where it is soon over. */
  stay() {
    if (!this.gone && this.stopped.left(this.stop) < SOON_MS) this.keep();
  }

  async keep() {
    if (this.asked === this.stop.resumesMs) return; // it was asked for already
    this.asked = this.stop.resumesMs;
    try {
      await this.stopped.keep(this.stop.id, MORE_S);
    } catch (error) {
      this.problem = error.message;
      this.draw();
    }
  }

  /** Have the server read the text. Returns whether it describes a message. */
  async check() {
    clearTimeout(this.timer);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const text = this.text.text;
    let verdict = null;
    try {
      if (text !== this.shown[this.form]) verdict = { text, ...(await this.stopped.check(this.stop.id, this.edited(), asking.signal)) };
    } catch (error) {
      if (error.name === "AbortError" || !(error instanceof Refused)) return false;
      verdict = { text, error };
    }
    if (this.asking !== asking || !this.text) return false;
    this.verdict = verdict;
    this.checking = false;
    const { line = null, column = null } = verdict?.error?.said ?? {};
    this.text.mark(line === null ? null : { line, column });
    this.draw();
    return !verdict?.error;
  }

  get differs() {
    return this.verdict !== null && !this.verdict.error && this.verdict.hex !== this.stop.hex;
  }

  async choose(form) {
    if (form === this.form) return;
    if (!(await this.check())) {
      this.problem = "Mend what is wrong first, or undo the edit.";
      return this.draw();
    }
    const edited = this.verdict;
    this.form = form;
    this.showText(edited ? this.textOf(edited)[form] : this.shown[form]);
    this.draw();
    this.place.querySelector(`#form-${form}`)?.focus();
    return edited && this.check();
  }

  turned(event) {
    if (!["ArrowRight", "ArrowLeft"].includes(event.key)) return;
    event.preventDefault();
    this.choose(this.form === "json" ? "hex" : "json");
  }

  undo() {
    this.showText(this.shown[this.form]);
    this.check();
  }

  async send() {
    if (!(await this.check()) || !this.differs) return;
    await this.decide("replace", this.edited());
  }

  fail() {
    if (!this.stop.canFail) return;
    this.stay();
    const { id } = this.stop;
    chooseError(`Answer the ${titleOf(this.stop)} with an error`, (error) => this.stop?.id === id && this.decide("error", { error }));
  }

  async decide(action, more = {}) {
    if (this.gone || this.busy) return;
    this.busy = true;
    this.problem = null;
    const { stop, verdict } = this;
    try {
      const rule = action === "resume" ? null : await this.stopped.rule(stop.id, action, more);
      await this.stopped.decide(stop.id, action, more);
      this.doings.done({ stop, action, more, changed: action === "replace" ? verdict.changed : [], rule });
    } catch (error) {
      this.busy = false;
      this.problem = error.message;
      if (this.stop === stop) this.draw();
    }
  }

  draw() {
    const { stop } = this;
    const ended = this.gone || this.busy;
    const act = (action) => () => this.decide(action);
    render(
      html`<div class="top"><h2>${titleOf(stop)} · ${named(stop.clientId)}</h2>
          <button class="plain" aria-label="Close" title="Leave it; it waits on" @click=${() => this.doings.left()}>✕</button></div>
        <dl class="pair">
          <dt>From</dt><dd><bdi>${visible(stop.client)}</bdi>${stop.principal ? html`, <bdi>${visible(stop.principal)}</bdi>` : nothing}, connection ${stop.connection} of <bdi>${visible(stop.cluster)}</bdi></dd>
          <dt>To</dt><dd><bdi>${visible(stop.broker ?? "")}</bdi></dd>
          <dt>Met</dt><dd><code><bdi>${visible(stop.condition)}</bdi></code></dd>
          <dt>Is</dt><dd>correlation id ${stop.correlationId}, ${counted(stop.size, "byte")}</dd>
        </dl>
        ${this.gone ? html`<p class="warning" role="status">${GONE}</p>` : this.time()}
        <div class="bar">
          <button ?disabled=${ended} @click=${act("resume")} title="Key r. As it came, byte for byte">Resume</button>
          <button ?disabled=${ended || !this.differs} @click=${() => this.send()} title="Ctrl+Enter in the text">Send as edited</button>
          <button ?disabled=${ended || !stop.canFail} @click=${() => this.fail()} title=${stop.canFail ? "Key e" : `A response of ${stop.api} has no place for an error`}>Answer with an error…</button>
          <button ?disabled=${ended} @click=${act("drop")} title="Key D. ${DROP[stop.expectsResponse ? stop.direction : "none"]}">Drop</button>
          <button ?disabled=${ended} @click=${act("close")} title="Key X. Both sides are closed">Close the connection</button>
        </div>
        ${this.problem === null ? nothing : html`<p class="critical" role="alert"><bdi>${visible(this.problem)}</bdi></p>`}
        <div class="bar"><div class="tabs" role="tablist" aria-label="Form of the text" @keydown=${(event) => this.turned(event)}>
          ${FORMS.map((one) => html`<button role="tab" id="form-${one.id}" aria-selected=${String(one.id === this.form)} aria-controls="edited-text" tabindex=${one.id === this.form ? 0 : -1} @click=${() => this.choose(one.id)}>${one.title}</button>`)}</div>
          <button ?disabled=${ended || this.verdict === null} @click=${() => this.undo()}>Undo the edit</button></div>
        <div class="text" id="edited-text" role="tabpanel" aria-labelledby="form-${this.form}"></div>
        <div class="said" id="edit-said" aria-live="polite">${this.said()}</div>`,
      this.place,
    );
  }

  time() {
    const left = this.stopped.left(this.stop);
    return html`<div class="bar time"><progress max=${Math.max(this.stop.resumesMs - this.stop.stoppedMs, 1)} .value=${left} aria-label="Time until it goes on by itself"></progress>
      <span>goes on by itself in ${seconds(left)}</span><button @click=${() => { this.asked = null; this.keep(); }} title="Key m">Keep for ${MORE_S} s</button></div>`;
  }

  said() {
    const { verdict } = this;
    if (this.checking) return html`<p class="muted">Checking…</p>`;
    if (verdict === null) return html`<p class="muted">As it came. Editing keeps it stopped for ${MORE_S} s more.</p>`;
    if (verdict.error) return this.wrong(verdict.error);
    const size = verdict.size === this.stop.size ? counted(verdict.size, "byte") : `${count(verdict.size)} bytes, as it came ${count(this.stop.size)}`;
    if (!this.differs) return html`<p class="muted">It would be sent as it came.</p>`;
    if (!verdict.changed.length) return html`<p>Other bytes, the same fields. ${size}.</p>`;
    return html`<p>Changed: ${verdict.changed.map((path, at) => html`${at ? ", " : ""}<code><bdi>${visible(path)}</bdi></code>`)}. ${size}.</p>`;
  }

  wrong({ message, said }) {
    const { line = null, column = null, position = null } = said;
    const place = line === null ? nothing : html`<button class="plain" @click=${() => this.text.goToMark()} title="Go there">Line ${line}, column ${column}${position === null ? "" : `, byte ${position}`}</button> `;
    return html`<p class="critical">${place}<bdi>${visible(message)}</bdi></p>`;
  }
}

/** "4.2 s", "58 s" */
export const seconds = (ms) => (ms < 9_950 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`);
