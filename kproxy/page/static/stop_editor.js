/** One stopped message: what it is, how long it waits, and the actions on it. CheckedText has its text. */

import { get } from "./api.js";
import { ask } from "./asking.js";
import { CheckedText } from "./checked_text.js";
import { effectsOf, seconds, titleOf } from "./stop_words.js";
import { counted, named, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const MORE_S = 60; // that "keep" and an open editor ask for
const SOON_MS = 30_000; // with less time than this left, an open editor asks for more
const UNSENT = "What is below was not sent. It can be copied from here.";

export class StopEditor {
  /** `left()` closes it, `toList()` gives the focus to the list, `done({stop, action, more, changed, rule})` reports a decision. */
  constructor(place, stopped, doings) {
    this.place = place;
    this.stopped = stopped;
    this.doings = doings;
    this.stop = null;
    this.text = null; // CheckedText
  }

  get isOpen() {
    return this.stop !== null;
  }

  /** Show a stopped message. Throws Refused if it is no longer stopped. */
  async show(id) {
    const stop = await this.stopped.look(id);
    this.close();
    this.stop = stop;
    this.busy = false;
    this.gone = false;
    this.extended = null;
    this.problem = null;
    this.place.hidden = false;
    this.draw();
    this.text = new CheckedText(this.place.querySelector(".checked"), stop, this.stopped, {
      typed: () => this.stay(),
      sent: () => this.send(),
      left: () => this.doings.toList(),
      said: () => this.draw(),
    });
    this.draw();
  }

  focus() {
    this.text.focus();
  }

  close() {
    this.text?.close();
    this.stop = this.text = null;
    render(nothing, this.place);
    this.place.hidden = true;
  }

  /** The list of stopped messages has changed. */
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
  }

  /** Ask for more time, if little is left. */
  stay() {
    if (!this.gone && this.stopped.left(this.stop) < SOON_MS) this.keep();
  }

  async keep() {
    if (this.extended === this.stop.resumesMs) return; // already asked for
    this.extended = this.stop.resumesMs;
    try {
      await this.stopped.keep(this.stop.id, MORE_S);
    } catch (error) {
      this.fails(error);
    }
  }

  fails(error) {
    this.problem = error.message;
    if (this.stop) this.draw();
  }

  async send() {
    if (this.gone || !(await this.text.check()) || !this.text.differs) return;
    await this.decide("replace", this.text.edited());
  }

  fail() {
    if (!this.stop.canFail || this.gone) return;
    this.stay();
    const { id } = this.stop;
    chooseError(`Answer the ${titleOf(this.stop)} with an error`, (error) => this.stop?.id === id && this.decide("error", { error }));
  }

  async decide(action, more = {}) {
    if (this.gone || this.busy) return;
    this.busy = true;
    this.problem = null;
    const { stop } = this;
    const changed = action === "replace" ? this.text.verdict.changed : [];
    try {
      const rule = action === "resume" ? null : await this.stopped.rule(stop.id, action, more);
      await this.stopped.decide(stop.id, action, more);
      this.doings.done({ stop, action, more, changed, rule });
    } catch (error) {
      if (this.stop !== stop) return;
      this.busy = false;
      this.fails(error);
    }
  }

  draw() {
    const { stop } = this;
    render(
      html`<div class="top"><h2>${titleOf(stop)} · ${named(stop.clientId)}</h2>
          <button class="plain" aria-label="Close" title="Leave it; it waits on" @click=${() => this.doings.left()}>✕</button></div>
        <dl class="pair">
          <dt>From</dt><dd><bdi>${visible(stop.client)}</bdi>${stop.principal ? html`, <bdi>${visible(stop.principal)}</bdi>` : nothing}, connection ${stop.connection} of <bdi>${visible(stop.cluster)}</bdi></dd>
          <dt>To</dt><dd><bdi>${visible(stop.broker ?? "")}</bdi></dd>
          <dt>Met</dt><dd><code><bdi>${visible(stop.condition)}</bdi></code></dd>
          <dt>Is</dt><dd>correlation id ${stop.correlationId}, ${counted(stop.size, "byte")}</dd>
        </dl>
        ${this.gone ? this.end() : this.time()}
        ${this.actions()}
        ${this.problem === null ? nothing : html`<p class="critical" role="alert"><bdi>${visible(this.problem)}</bdi></p>`}
        <div class="checked"></div>`,
      this.place,
    );
  }

  actions() {
    const { stop } = this;
    const over = this.gone || this.busy;
    const act = (action) => () => this.decide(action);
    const effects = effectsOf(stop);
    return html`<div class="bar">
      <button ?disabled=${over} @click=${act("resume")} title="Key r. ${effects.Resume}">Resume</button>
      <button ?disabled=${over || !this.text?.differs} @click=${() => this.send()} title="Ctrl+Enter in the text">Send as edited</button>
      <button ?disabled=${over || !stop.canFail} @click=${() => this.fail()} title=${stop.canFail ? `Key e. ${effects.Error}` : effects.Error}>Answer with an error…</button>
      <button ?disabled=${over} @click=${act("drop")} title="Key D. ${effects.Drop}">Drop</button>
      <button ?disabled=${over} @click=${act("close")} title="Key X. ${effects.Close}">Close the connection</button>
    </div>
    <details class="effects"><summary>What the client sees of each</summary><dl class="pair">${Object.entries(effects).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl></details>`;
  }

  end() {
    return html`<p class="warning" role="status"><bdi>${visible(this.stopped.ends.sentence(this.stop.id))}</bdi> ${this.text?.isEdited ? UNSENT : nothing}</p>`;
  }

  time() {
    const left = this.stopped.left(this.stop);
    return html`<div class="bar time"><progress max=${Math.max(this.stop.resumesMs - this.stop.stoppedMs, 1)} .value=${left} aria-label="Time until it goes on by itself"></progress>
      <span>held while it is open here; else it goes on in ${seconds(left)}</span><button @click=${() => { this.extended = null; this.keep(); }} title="Key m">Keep for ${MORE_S} s</button></div>`;
  }
}

let known = null; // all errors, once the server has sent them

/** Open a dialog to choose an error of Kafka's by a part of its name, number or meaning; `chosen(name)` is called with it. */
async function chooseError(title, chosen) {
  known ??= await get("stops/errors");
  const dialog = ask(title, html`<div class="error-choice"></div>`);
  const place = dialog.querySelector(".error-choice");
  let at = 0;
  let found = known;

  const take = (error) => {
    dialog.close();
    chosen(error.name);
  };
  const typed = (event) => {
    found = matching(event.target.value);
    at = 0;
    draw();
  };
  const move = (by) => {
    at = Math.min(Math.max(at + by, 0), found.length - 1);
    draw();
    place.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  };
  const pressed = (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in moves) move(moves[event.key]);
    else if (event.key === "Enter" && found.length) take(found[at]);
    else return;
    event.preventDefault();
  };
  const draw = () => {
    render(
      html`<input type="text" role="combobox" aria-label="Error: a part of its name, number or meaning" aria-autocomplete="list" aria-expanded="true"
          aria-controls="errors" aria-activedescendant=${found.length ? `error-${at}` : ""} autocomplete="off" spellcheck="false"
          placeholder="NOT_LEADER, 41, throttle…" @input=${typed} @keydown=${pressed} />
        <p class="note" aria-live="polite">${found.length ? counted(found.length, "error") : "No error has that in its name, number or meaning."}</p>
        <ul id="errors" role="listbox" aria-label="Errors" ?hidden=${!found.length}>${found.map((one, index) => choice(one, index))}</ul>`,
      place,
    );
  };
  const choice = (error, index) => html`<li role="option" id="error-${index}" aria-selected=${String(index === at)} @click=${() => take(error)}>
    <b>${error.name}</b> <span>${error.code}${error.retriable ? " · clients retry it" : nothing}</span>
    <span class="meaning">${visible(error.meaning)}</span></li>`;

  draw();
  place.querySelector("input").focus();
}

/** Return the errors that contain each of the words; errors with the first word in their name come first. */
function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = ({ name, code, meaning }) => `${name} ${code} ${meaning}`.toLowerCase();
  const found = known.filter((one) => words.every((word) => texts(one).includes(word)));
  if (!words.length) return found;
  const rank = (one) => (String(one.code) === words[0] ? 0 : one.name.toLowerCase().includes(words[0]) ? 1 : 2);
  return found.sort((a, b) => rank(a) - rank(b));
}
