/** The page: its bar, its views, the keys that hold everywhere, light and dark, what the server tells. */

import { events, get } from "./api.js";
import { ask, say } from "./asking.js";
import { Clients, KEYS as CLIENTS } from "./clients.js";
import { Exchanges, KEYS as EXCHANGES } from "./exchanges.js";
import { Findings, KEYS as FINDINGS } from "./findings.js";
import { Groups, KEYS as GROUPS } from "./groups.js";
import { TrafficMap, KEYS as MAP } from "./traffic_map.js";
import { current, fragmentOf, go, VIEWS } from "./route.js";
import { Time, KEYS as TIME } from "./time.js";
import { bytes, counted, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const MADE = {
  exchanges: { View: Exchanges, keys: EXCHANGES },
  map: { View: TrafficMap, keys: MAP },
  time: { View: Time, keys: TIME },
  groups: { View: Groups, keys: GROUPS },
  clients: { View: Clients, keys: CLIENTS },
  findings: { View: Findings, keys: FINDINGS },
};
const EVERYWHERE = [
  [VIEWS.map((_, at) => at + 1).join(" "), VIEWS.map((one) => one.title).join(", ")],
  ["t", "light, dark, as the system"],
  ["?", "these keys"],
];
const THEMES = ["system", "light", "dark"];
const KEPT = "kproxy theme";

let source = null;
let shown = null; // {id, view}

function theme() {
  const kept = localStorage.getItem(KEPT);
  return THEMES.includes(kept) ? kept : "system";
}

function setTheme(name) {
  localStorage.setItem(KEPT, name);
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  drawBar();
}

function drawBar() {
  const { view } = current();
  render(
    html`<h1>kproxy</h1>
      <nav aria-label="Views">${VIEWS.map((one, at) => html`<a href=${fragmentOf(one.id)} aria-current=${one.id === view ? "page" : nothing} title="key ${at + 1}">${one.title}</a>`)}</nav>
      <span class="source" title=${source ? visible(source.name) : ""}>${source ? sourceText() : ""}</span>
      <div class="tools">
        <button class="plain" aria-label="Light or dark: ${theme()}" title="Light or dark: ${theme()}" @click=${nextTheme}>${{ system: "◐", light: "☀", dark: "☾" }[theme()]}</button>
        <button class="plain" aria-label="Keys" title="Keys" @click=${showKeys}>?</button>
      </div>`,
    document.getElementById("bar"),
  );
}

function sourceText() {
  const { loading, live, dropped } = source;
  const state = loading ? ` · reading ${Math.floor((100 * loading.done) / Math.max(loading.of, 1))} %` : live ? " · live" : "";
  return html`<bdi>${visible(source.name)}</bdi> · ${counted(source.exchanges, "exchange")} · ${bytes(source.bytes)}${dropped ? ` · ${counted(dropped, "older one")} left` : ""}${source.damages?.length ? html` · <span class="warning">damaged</span>` : nothing}${state}`;
}

async function showView() {
  const { view, parameters } = current();
  shown?.view.close();
  const place = document.getElementById("view");
  const fresh = place.cloneNode(false);
  place.replaceWith(fresh);
  document.title = `${VIEWS.find((one) => one.id === view).title} · kproxy`;
  shown = { id: view, view: new MADE[view].View(fresh, source) };
  drawBar();
  fresh.setAttribute("aria-busy", "true");
  await shown.view.enter(parameters);
  fresh.setAttribute("aria-busy", "false");
}

function showKeys() {
  const { view } = current();
  const keys = [...MADE[view].keys, ...EVERYWHERE];
  ask("Keys", html`<dl class="keys">${keys.map(([key, meaning]) => html`<dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${meaning}</dd>`)}</dl>`);
}

const writes = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || writes(event.target)) return;
  if (document.getElementById("dialog").open) return;
  const at = Number(event.key) - 1;
  if (event.key === "?") showKeys();
  else if (event.key === "t") nextTheme();
  else if (VIEWS[at]) go(VIEWS[at].id);
  else if (!shown?.view.key?.(event)) return;
  event.preventDefault();
}

function listen() {
  const told = events(["rows"], (_, news) => {
    const wasLoading = source.loading;
    source = { ...source, ...news };
    drawBar();
    shown?.view.renewed?.(news);
    if (!wasLoading || source.loading) return;
    if (!source.live) told.close();
    readWhole();
  });
}

/** The source was read to its end: what it is now, and the view of all of it. */
async function readWhole() {
  source = { ...source, ...(await get("source")) };
  drawBar();
  sayDamages();
  if (shown && !shown.view.renewed) await showView();
}

function sayDamages() {
  for (const sentence of (source.damages ?? []).slice(0, 3)) say(`Damaged, and read up to there: ${sentence}`);
}

async function begin() {
  setTheme(theme());
  try {
    source = await get("source");
  } catch (error) {
    render(html`<div class="empty" role="alert">${visible(error.message)}</div>`, document.getElementById("view"));
    return;
  }
  window.addEventListener("hashchange", showView);
  document.addEventListener("keydown", pressed);
  await showView();
  sayDamages();
  if (source.live || source.loading) listen();
}

window.addEventListener("unhandledrejection", (event) => say(event.reason?.message ?? String(event.reason)));
begin();
