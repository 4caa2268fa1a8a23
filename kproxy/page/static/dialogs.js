/** What dialogs do with exchanges: compare two, export the selected ones, replay them. */

import { address, get, post } from "./api.js";
import { ask, copyButton, say } from "./asking.js";
import { cellText, counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const MOST_DIFFERENCES = 1000;
const LONGEST = 100_000; // characters of a plan or a comparison
const FORMATS = [
  { id: "pcapng", title: "pcapng", meaning: "packets, for Wireshark" },
  { id: "pcapng-anonymized", title: "pcapng, anonymized", meaning: "names and values replaced, as kproxy decode --anonymize writes them" },
  { id: "jsonl", title: "JSON lines", meaning: "the decoded log, one exchange a line" },
  { id: "parquet", title: "Parquet", meaning: "tables, for DuckDB and Spark" },
];

/** Show the fields in which two exchanges differ. */
export async function compare(a, b) {
  const { differences } = await get("compare", { a, b });
  ask(`Exchanges ${a} and ${b}`, differences.length ? differing(differences, a, b) : html`<p>They are equal.</p>`);
}

function differing(differences, a, b) {
  return html`<p>${counted(differences.length, "difference")}.</p><div class="rows"><table class="differ stacked">
    <thead><tr><th scope="col">side</th><th scope="col">field</th><th scope="col">#${a}</th><th scope="col">#${b}</th></tr></thead>
    <tbody>${differences.slice(0, MOST_DIFFERENCES).map((one) => html`<tr><td>${one.side}</td><td><bdi>${visible(one.path)}</bdi></td><td data-of="#${a}">${shownValue(one.a)}</td><td data-of="#${b}">${shownValue(one.b)}</td></tr>`)}</tbody>
  </table></div>`;
}

const shownValue = (one) => (one === null || one === undefined ? html`<span class="none">null</span>` : html`<bdi>${visible(cellText(one))}</bdi>`);

/** Show how to have the selected exchanges as a file, or by a command in a terminal. */
export async function exportMenu(filter, span = {}) {
  const what = filter ? html`The exchanges that match <code><bdi>${visible(filter)}</bdi></code>:` : html`All exchanges:`;
  const dialog = ask(
    "Export",
    html`<p>${what}</p>
      <ul class="formats"></ul>
      <h3>As a command</h3><div class="commands"></div>`,
  );
  const drawFormats = (impossible) => render(html`${FORMATS.map((format) => html`<li>${impossible[format.id] ? format.title : html`<a href=${address("export", { format: format.id, filter, ...span })} download>${format.title}</a>`}
      <span class="note">${visible(impossible[format.id] ?? format.meaning)}</span></li>`)}`, dialog.querySelector(".formats"));
  drawFormats({});
  const place = dialog.querySelector(".commands");
  render(html`<p class="muted">…</p>`, place);
  try {
    const { command, note, replay, of, impossible } = await get("command", { filter, format: "jsonl", ...span });
    const first = of ? html`It reads <code>${of}</code>: export all exchanges as pcapng first, without a filter.` : note;
    const before = first ? html`<p class="note">${first}</p>` : "";
    const again = replay ? html`<p class="note">To send its requests to a cluster; without <code>--yes</code>, to see what they would do there:</p>${copied(replay)}` : "";
    render(html`${before}${copied(command)}${again}`, place);
    drawFormats(impossible);
  } catch (error) {
    render(html`<p class="critical">${visible(error.message)}</p>`, place);
  }
}

const copied = (command) => html`<pre class="command">${visible(command, 20_000)}</pre>${copyButton(command)}`;

/** Show the plan of kproxy replay for `selection`, {filter, fromNs, toNs}, and send it when the user says so. */
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
