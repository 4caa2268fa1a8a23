/** Replay the selected exchanges: a dialog shows the plan of kproxy replay, and sends it when the user says so. */

import { post } from "./api.js";
import { ask } from "./asking.js";
import { visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const LONGEST = 100_000; // characters of a plan or a comparison

/** Open the dialog. `selection` is {filter, fromNs, toNs}. */
export function replay(selection, token) {
  const dialog = ask("Replay", html`<div class="replay"></div>`);
  const place = dialog.querySelector(".replay");
  const wanted = { to: "", speed: "1", createTopics: false };
  let plan = null; // {plan: its id, text}
  let result = null; // {text, differs, interrupted}
  let problem = null;
  let asking = null; // AbortController of the running request

  const run = async (path, body, take) => {
    asking = new AbortController();
    problem = null;
    draw();
    try {
      take(await post(path, body, token, { signal: asking.signal }));
    } catch (error) {
      problem = error.name === "AbortError" ? "It was cancelled. What was sent until then stays done." : error.message;
    }
    asking = null;
    draw();
  };
  const showPlan = (event) => {
    event.preventDefault();
    plan = result = null;
    run("replay/plan", { ...selection, ...wanted }, (answer) => { plan = answer; });
  };
  const send = () => {
    const { plan: id } = plan;
    plan = null;
    run("replay", { plan: id }, (answer) => { result = answer; });
  };
  const change = (name) => (event) => {
    wanted[name] = event.target.type === "checkbox" ? event.target.checked : event.target.value.trim();
    plan = null; // it was made for other settings
    draw();
  };
  const draw = () => render(
    html`<p>${selection.filter ? html`Sends the requests that match <code><bdi>${visible(selection.filter)}</bdi></code>` : "Sends all requests"} to a cluster, as <code>kproxy replay</code> does, and compares the answers.
        Nothing is sent before you have seen the plan.</p>
      <form class="bar" @submit=${showPlan}>
        <label>To <input required placeholder="HOST:PORT of a broker" autocomplete="off" spellcheck="false" ?disabled=${asking !== null} @input=${change("to")} /></label>
        <label>Speed <select ?disabled=${asking !== null} @change=${change("speed")}>${[["1", "as recorded"], ["2", "twice as fast"], ["10", "ten times as fast"], ["max", "without pauses"]].map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select></label>
        <label><input type="checkbox" ?disabled=${asking !== null} @change=${change("createTopics")} /> create missing topics</label>
        <button ?disabled=${asking !== null}>Show the plan</button>
      </form>
      ${asking ? html`<div class="bar" role="status"><span>Working…</span><button @click=${() => asking.abort()}>Cancel</button></div>` : nothing}
      ${problem === null ? nothing : html`<p class="critical" role="alert"><bdi>${visible(problem, 1000)}</bdi></p>`}
      ${plan ? html`<h3>The plan</h3>${shown(plan.text)}<div class="bar"><button @click=${send}>Send it</button></div>` : nothing}
      ${result ? html`<h3 role="status">${result.interrupted ? "The replay was interrupted" : result.differs ? "Sent; answers differ" : "Sent; the answers are the same"}</h3>${shown(result.text)}` : nothing}`,
    place,
  );
  dialog.addEventListener("close", () => asking?.abort(), { once: true });
  draw();
  place.querySelector("input").focus();
}

const shown = (text) => html`<pre class="command" tabindex="0">${text.split("\n").map((line) => visible(line, LONGEST)).join("\n")}</pre>`;
