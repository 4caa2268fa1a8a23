/**
 * The page: its bar, its views, the keys of all views, light and dark, and news of the server.
 *
 * Views: exchanges.js (with exchange_table.js, rows.js, detail.js), breakpoints.js (with stopped.js, stop_editor.js), and time.js,
 * traffic_map.js, groups.js, clients.js, findings.js, which extend AnswersView (answers_view.js). Names and numbers are drawn by text.js
 * only, requests go through api.js. To add a view: an entry of VIEWS (route.js), a class, and an entry of MADE here.
 */

import { events, get, watchAnswers } from "./api.js";
import { ask, say } from "./asking.js";
import { Breakpoints, BreakpointsOff, KEYS as BREAKPOINTS } from "./breakpoints.js";
import { Clients, KEYS as CLIENTS } from "./clients.js";
import { Exchanges, KEYS as EXCHANGES } from "./exchanges.js";
import { Findings, KEYS as FINDINGS } from "./findings.js";
import { Groups, KEYS as GROUPS } from "./groups.js";
import { TrafficMap, KEYS as MAP } from "./traffic_map.js";
import { current, fragmentOf, go, note, VIEWS, viewsOf } from "./route.js";
import { Stopped } from "./stopped.js";
import { Time, KEYS as TIME } from "./time.js";
import { bytes, count, counted, lines, visible } from "./text.js";
import { html, nothing, render } from "./lit-html.js";

const MADE = {
  exchanges: { View: Exchanges, keys: EXCHANGES },
  map: { View: TrafficMap, keys: MAP },
  time: { View: Time, keys: TIME },
  groups: { View: Groups, keys: GROUPS },
  clients: { View: Clients, keys: CLIENTS },
  findings: { View: Findings, keys: FINDINGS },
  breakpoints: { View: Breakpoints, keys: BREAKPOINTS },
};
const OFF = { View: BreakpointsOff, keys: [] };
const EVERYWHERE = [
  ["t", "light, dark, as the system"],
  ["?", "these keys"],
];
const THEMES = ["system", "light", "dark"];
const KEPT = "kproxy theme";

let source = null;
let stopped = null; // Stopped, if breakpoints are allowed
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
      <nav aria-label="Views">${viewsOf(source).map((one, at) => html`<a href=${fragmentOf(one.id)} aria-current=${one.id === view ? "page" : nothing} title="key ${at + 1}">${one.title}</a>`)}</nav>
      <span class="stopped-count" aria-live="polite">${stopped?.total && view !== "breakpoints" ? html`<a href=${fragmentOf("breakpoints")}>${count(stopped.total)} stopped</a>` : nothing}</span>
      <span class="source" title=${source ? visible(source.name) : ""}>${source ? sourceText() : ""}</span>
      <div class="tools">
        <button class="plain" aria-label="Light or dark: ${theme()}" title="Light or dark: ${theme()}" @click=${nextTheme}>${{ system: "◐", light: "☀", dark: "☾" }[theme()]}</button>
        <button class="plain" aria-label="Keys" title="Keys" @click=${showKeys}>?</button>
      </div>`,
    document.getElementById("bar"),
  );
}

function sourceText() {
  const { left, dropped, share, spill, damages, unread, narrowed, grown } = source;
  return [
    html`<bdi>${visible(source.name)}</bdi>`,
    ` · ${counted(source.exchanges, "exchange")}`,
    source.bytes || source.mostBytes ? html` · <span title=${bound()}>${bytes(source.bytes)}${source.mostBytes ? ` of ${bytes(source.mostBytes)}` : ""} in memory</span>` : nothing,
    spill?.bytes ? html` and <span title=${visible(spill.directory)}>${bytes(spill.bytes)} on disk</span>` : nothing,
    spill?.trouble ? warning("nothing can be written to disk", visible(spill.trouble)) : nothing,
    left ? ` · ${counted(left, "older one")} removed to make room` : nothing,
    dropped ? warning(`${counted(dropped, "exchange")} not shown${share < 0.99 ? `; now ${rate(share)}` : ""}`, "There was no time for them; traffic comes first.") : nothing,
    damages?.length ? warning(source.live ? "incomplete" : "damaged", lines(damages)) : nothing,
    unread?.length && source.exchanges ? warning("not all shown", lines(unread)) : nothing,
    narrowed ? warning("analyzed in part", visible(narrowed, 1000)) : nothing,
    grown ? warning("not read to its end", visible(grown, 1000)) : nothing,
    stateText(),
  ];
}

/** Say how many of a running proxy's exchanges are kept. */
const bound = () => (source.mostBytes ? `The newest exchanges are kept, up to ${bytes(source.mostBytes)} of memory; the oldest then leave${source.spill ? ", to disk first" : ""}.` : nothing);

function stateText() {
  const { loading, lost, live } = source;
  if (loading) return ` · reading${loading.of ? ` ${Math.floor((100 * loading.done) / loading.of)} %` : ""}`;
  if (lost) return warning(live ? "no answer, asking again" : "no answer", "kproxy has ended, or cannot be reached: start it again, and open the address that it prints.");
  return live ? " · live" : nothing;
}

/** Draw a part of the line about the source that warns, with its meaning as a tooltip. */
const warning = (text, meaning) => html` · <span class="warning" title=${meaning}>${text}</span>`;

/** Say which share of the exchanges is shown: "about 1 in 4 is", "most are". */
const rate = (share) => (share > 0.66 ? "most are" : `about 1 in ${count(Math.round(1 / share))} is`);

/** Return the class and keys of a view; a view that this source does not have says why. */
const makerOf = (view) => (viewsOf(source).some((one) => one.id === view) ? MADE[view] : OFF);

/** The URL has changed: show another view, or other parameters of this one. */
function moved() {
  const { view, parameters } = current();
  if (shown?.id === view && shown.view.moved) shown.view.moved(parameters);
  else showView();
}

async function showView() {
  const { view, unknown, parameters } = current();
  if (unknown) say(`There is no view with the name ${unknown.slice(0, 40)}: these are the exchanges.`);
  const isAnother = shown !== null && shown.id !== view;
  shown?.view.close();
  const place = document.getElementById("view");
  const fresh = place.cloneNode(false);
  place.replaceWith(fresh);
  if (isAnother && !document.getElementById("dialog").open) fresh.focus({ preventScroll: true }); // Tab and keys continue in the view
  shown = { id: view, view: new (makerOf(view).View)(fresh, source, stopped) };
  drawBar();
  drawTitle();
  document.querySelector("#bar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  fresh.setAttribute("aria-busy", "true");
  try {
    await shown.view.enter(parameters);
  } finally {
    fresh.setAttribute("aria-busy", "false");
  }
}

function drawTitle() {
  if (!shown) return;
  const { title } = VIEWS.find((one) => one.id === shown.id);
  document.title = `${stopped?.total ? `(${count(stopped.total)} stopped) ` : ""}${title} · kproxy`;
}

function showKeys() {
  const { view } = current();
  const views = viewsOf(source);
  const keys = [...makerOf(view).keys, [views.map((_, at) => at + 1).join(" "), views.map((one) => one.title).join(", ")], ...EVERYWHERE];
  ask("Keys", html`<dl class="keys">${keys.map(([key, meaning]) => html`<dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${meaning}</dd>`)}</dl><p><a href="/page/help/page" target="_blank">The manual</a></p>`);
}

const writes = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || writes(event.target)) return;
  if (document.getElementById("dialog").open) return;
  const at = Number(event.key) - 1;
  if (event.key === "?") showKeys();
  else if (event.key === "t") nextTheme();
  else if (viewsOf(source)[at]) go(viewsOf(source)[at].id);
  else if (!shown?.view.key?.(event)) return;
  event.preventDefault();
}

function listen() {
  const connection = events(["rows"], (_, news) => {
    const wasLoading = source.loading;
    const isAnother = news.instance !== source.instance;
    const before = source.damages ?? [];
    const narrowedBefore = source.narrowed;
    source = { ...source, ...news, lost: false };
    if (isAnother) {
      beginAnew();
      return;
    }
    drawBar();
    sayDamages(before);
    if (source.narrowed !== narrowedBefore) sayNarrowed();
    shown?.view.renewed?.(news);
    if (!wasLoading || source.loading) return;
    if (!source.live) connection.close();
    readWhole();
  }, () => {
    source = { ...source, lost: true };
    drawBar();
  });
}

/** Note whether the server answered. */
function answered(whether) {
  if (Boolean(source.lost) === !whether) return;
  source = { ...source, lost: !whether };
  drawBar();
}

/** A message was stopped or released, or the configuration no longer allows breakpoints. */
function stopsChanged() {
  if (stopped.off === null) {
    drawBar();
    drawTitle();
    shown?.view.stopsChanged?.();
    return;
  }
  say(`Breakpoints are off now: ${stopped.off}`);
  source = { ...source, editable: false };
  if (shown?.id === "breakpoints") showView();
  else drawBar();
}

/** Ask what the source is now. If breakpoints have become allowed, the page has to be reloaded for them. */
async function askAgain() {
  source = { ...source, ...(await get("source")) };
  source.editable &&= stopped !== null && stopped.off === null;
}

/** Start over: the page's process has ended, with its exchanges, and another one answers. */
async function beginAnew() {
  say("The page's process ended and was started again: what it had is gone, and new exchanges are shown from here on.");
  await askAgain();
  if (current().view === "exchanges") note({ at: null }); // the new process numbers exchanges from 1
  await showView();
}

/** The source was read to its end: show all of it. */
async function readWhole() {
  const before = source.damages;
  await askAgain();
  drawBar();
  sayDamages(before);
  if (shown && !shown.view.renewed) await showView();
}

/** Say what is missing, except for the sentences in *before*. */
function sayDamages(before = []) {
  const fresh = (source.damages ?? []).filter((sentence) => !before.includes(sentence));
  for (const sentence of fresh.slice(0, 3)) say(source.live ? `Incomplete: ${sentence}` : `Damaged: ${sentence}`);
}

/** Say which part of the traffic is analyzed, if the configuration restricts it. */
function sayNarrowed() {
  if (source.narrowed) say(source.narrowed);
}

async function begin() {
  setTheme(theme());
  try {
    source = await get("source");
  } catch (error) {
    render(html`<div class="empty" role="alert">${visible(error.message)}</div>`, document.getElementById("view"));
    return;
  }
  if (source.editable) stopped = new Stopped(source.token, stopsChanged);
  window.addEventListener("hashchange", moved);
  watchAnswers(answered);
  document.addEventListener("keydown", pressed);
  stopped?.watch();
  await showView();
  sayDamages();
  sayNarrowed();
  if (source.grown) say(source.grown);
  if (source.live || source.loading) listen();
}

// What a view does not handle of a request that the server refused is said here.
window.addEventListener("unhandledrejection", (event) => say(event.reason?.message ?? String(event.reason)));
begin();
