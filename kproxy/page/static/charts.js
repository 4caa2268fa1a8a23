/** Charts over time in SVG: axes, stacked bars, heat map, lines, and a brush that selects a span. Styles are classes only. */

import { current, note } from "./route.js";
import { count, isoOf, timeOfDay, visible } from "./text.js";
import { nothing, svg } from "./lit-html.js";

const LEFT = 56; // pixels for the labels of the vertical axis
const BOTTOM = 22;
const STEPS_MS = [
  0.001, 0.01, 0.1, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 6048e5,
];

// One colour for each API, the same in every view and every source. These, the most common, have a colour of their own: .k0, .k1, …
const APIS = [
  "Fetch", "Produce", "Metadata", "ApiVersions", "FindCoordinator", "OffsetCommit", "JoinGroup", "Heartbeat", "SyncGroup", "OffsetFetch",
  "ListOffsets", "InitProducerId", "LeaveGroup", "EndTxn", "AddPartitionsToTxn", "ConsumerGroupHeartbeat", "TxnOffsetCommit", "OffsetForLeaderEpoch",
  "AddOffsetsToTxn", "CreateTopics", "DescribeConfigs", "SaslAuthenticate", "SaslHandshake", "DescribeGroups",
];
const COLOURS = new Map(APIS.map((name, at) => [name, at]));
const FIRST_OF_ORDER = 12; // the colours that differ most from each other

/** Return the class with the colour of an API. Rare APIs share the colours from .k12 on, by a hash of the name. */
export function colourOfApi(name) {
  const hash = [...name].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 65_521, 7);
  return `k${COLOURS.get(name) ?? FIRST_OF_ORDER + (hash % FIRST_OF_ORDER)}`;
}

/** Return the class with the colour of a chart's series number `at`, if it is not an API. */
export const colourOfOrder = (at) => `k${at % FIRST_OF_ORDER}`;

/** Return how wide to draw in an element, in pixels. */
export const widthOf = (place) => Math.max(Math.min(place.clientWidth - 2, 1400), 280);

/** Map times in nanoseconds (BigInt) to pixels and back. Times beyond the axis map to its end. */
export function timeScale(fromNs, toNs, width) {
  const span = toNs > fromNs ? toNs - fromNs : 1n;
  const inner = width - LEFT - 8;
  return {
    fromNs,
    toNs,
    width,
    x: (ns) => LEFT + Math.min(Math.max(Number(ns - fromNs) / Number(span), 0), 1) * inner,
    at: (x) => fromNs + BigInt(Math.round(Math.min(Math.max((x - LEFT) / inner, 0), 1) * Number(span))),
  };
}

/** Draw the time axis with its labels, `height` pixels from the top. */
export function timeAxis(scale, height) {
  const spanMs = Number(scale.toNs - scale.fromNs) / 1e6;
  const most = Math.max(Math.floor(scale.width / 110), 2);
  const stepMs = STEPS_MS.find((step) => spanMs / step <= most) ?? spanMs / most;
  const step = BigInt(Math.max(Math.round(stepMs * 1e6), 1));
  const ticks = [];
  for (let at = (scale.fromNs / step + 1n) * step; at <= scale.toNs && ticks.length < 30; at += step) ticks.push(at);
  return svg`<g class="axis"><path d="M${LEFT} ${height}H${scale.width - 8}"></path>
    ${ticks.map((at) => svg`<line x1=${scale.x(at)} x2=${scale.x(at)} y1="0" y2=${height + 4}></line>
      <text x=${scale.x(at)} y=${height + 16} text-anchor=${scale.x(at) > scale.width - 40 ? "end" : "middle"}>${shortTime(at, stepMs)}</text>`)}</g>`;
}

/** Return the dates of a chart in words, as its axis shows only the ends of times. */
export function datesOf(scale) {
  const [from, to] = [scale.fromNs, scale.toNs].map((ns) => isoOf(ns).slice(0, 19).replace("T", " "));
  return `from ${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to} UTC`;
}

function shortTime(ns, stepMs) {
  const iso = isoOf(ns);
  if (stepMs >= 864e5) return iso.slice(5, 10);
  const time = timeOfDay(iso);
  if (stepMs >= 60_000) return time.slice(0, 5);
  return stepMs >= 1000 ? time.slice(0, 8) : stepMs >= 1 ? time.slice(3, 12) : time.slice(6);
}

/** Return round whole numbers for an axis from 0 to the largest count. */
function roundSteps(largest, most = 4) {
  if (!(largest > 0)) return [0, 1];
  const rough = largest / most;
  const power = Math.max(10 ** Math.floor(Math.log10(rough)), 1);
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const steps = [];
  for (let at = 0; at < largest + step; at += step) steps.push(at);
  return steps;
}

/** Draw the labels and lines of the vertical axis: [{y, text}]. */
export function levels(marks, width) {
  return svg`<g class="axis">${marks.map(({ y, text }) => svg`<line x1=${LEFT} x2=${width - 8} y1=${y} y2=${y}></line><text x=${LEFT - 6} y=${y + 4} text-anchor="end">${text}</text>`)}</g>`;
}

/** Draw bars stacked on each other. `ends` are the limits of the buckets, one more than values; series [{name, values, colour: a class}]. */
export function stackedBars(scale, ends, series, height, format) {
  const sums = ends.slice(1).map((_, at) => series.reduce((sum, one) => sum + one.values[at], 0));
  const steps = roundSteps(Math.max(...sums, 0));
  const top = steps.at(-1);
  const y = (value) => height - (value / top) * (height - 6);
  const base = sums.map(() => 0);
  const bars = series.map((one, index) => {
    const parts = one.values.map((value, at) => {
      if (!value) return "";
      const [left, right] = [scale.x(ends[at]), scale.x(ends[at + 1])];
      const low = y(base[at]);
      base[at] += value;
      return `M${left.toFixed(1)} ${low.toFixed(1)}V${y(base[at]).toFixed(1)}H${Math.max(right - 0.5, left + 0.5).toFixed(1)}V${low.toFixed(1)}Z`;
    });
    return svg`<path class="k ${one.colour ?? colourOfOrder(index)}" data-series=${visible(one.name)} d=${parts.join("")}></path>`;
  });
  return svg`${levels(steps.map((value) => ({ y: y(value), text: format(value) })), scale.width)}${timeAxis(scale, height)}${bars}`;
}

/** Draw a heat map: the stronger the colour, the larger the count. counts[bucket][level]; `levelsText[level]` names its upper bound. */
export function heatCells(scale, ends, counts, levelsText, height) {
  const rows = levelsText.length;
  const cell = height / rows;
  const largest = Math.max(...counts.flat(), 1);
  const cells = counts.flatMap((column, at) =>
    column.map((number, level) => {
      if (!number) return nothing;
      const [left, right] = [scale.x(ends[at]), scale.x(ends[at + 1])];
      const strength = 0.2 + 0.8 * (Math.log1p(number) / Math.log1p(largest));
      return svg`<rect class="heat" x=${left.toFixed(1)} y=${(height - (level + 1) * cell).toFixed(1)} width=${Math.max(right - left - 0.5, 1).toFixed(1)} height=${Math.max(cell - 0.5, 1).toFixed(1)}
        fill-opacity=${strength.toFixed(2)} data-count=${number}><title>${count(number)} up to ${levelsText[level]}</title></rect>`;
    }),
  );
  const every = Math.max(Math.ceil(rows / 8), 1);
  const marks = levelsText.map((text, level) => ({ y: height - (level + 1) * cell, text })).filter((_, level) => (rows - 1 - level) % every === 0);
  return svg`${levels(marks, scale.width)}${timeAxis(scale, height)}${cells}`;
}

/** Draw lines of steps: series [{name, points: [{ns, value}]}]. */
export function stepLines(scale, series, height, format) {
  const steps = roundSteps(Math.max(...series.flatMap((one) => one.points.map((point) => point.value)), 0));
  const y = (value) => height - (value / steps.at(-1)) * (height - 6);
  const paths = series.map((one, index) => {
    const parts = one.points.map(({ ns, value }, at) => (at ? `H${scale.x(ns).toFixed(1)}V${y(value).toFixed(1)}` : `M${scale.x(ns).toFixed(1)} ${y(value).toFixed(1)}`));
    return svg`<path class="line ${colourOfOrder(index)}" data-series=${visible(one.name)} d="${parts.join("")}H${(scale.width - 8).toFixed(1)}"></path>`;
  });
  return svg`${levels(steps.map((value) => ({ y: y(value), text: format(value) })), scale.width)}${timeAxis(scale, height)}${paths}`;
}

/** Draw a chart in which a span can be selected, by pointer or by keys: ← → moves, Shift extends, Enter shows, Esc clears. */
export function brushed({ scale, height, label, content, brush }) {
  const [from, to] = brush.span ?? [null, null];
  const band =
    from === null ? nothing : svg`<rect class="brush" x=${scale.x(from)} width=${Math.max(scale.x(to) - scale.x(from), 1)} y="0" height=${height}></rect>`;
  const cursor = brush.cursor === null ? nothing : svg`<line class="cursor" x1=${scale.x(brush.cursor)} x2=${scale.x(brush.cursor)} y1="0" y2=${height}></line>`;
  return svg`<svg class="chart" width=${scale.width} height=${height + BOTTOM} viewBox="0 0 ${scale.width} ${height + BOTTOM}" tabindex="0" role="application" aria-label=${label}
      aria-description="Left and right move, with Shift they select a span, Enter shows its exchanges, Escape lets go."
      @keydown=${(event) => brush.pressed(event, scale)}>${content}${band}${cursor}
    <rect class="sheet" x=${LEFT} y="0" width=${scale.width - LEFT - 8} height=${height}
      @pointerdown=${(event) => brush.began(event, scale)} @pointermove=${(event) => brush.moved(event, scale)} @pointerup=${(event) => brush.ended(event, scale)}></rect></svg>`;
}

/** The selected span in nanoseconds, one for all charts of a view; in the URL it is selected=FROM-TO. */
export class Brush {
  /** `changed()` redraws the view; `taken()` is called for Enter. */
  constructor(changed, taken) {
    Object.assign(this, { changed, taken });
    this.span = null;
    this.cursor = null; // where the keyboard is
    this.origin = null; // where the pointer went down
  }

  /** Take the selection from the parameters of the URL. */
  enter({ selected = "" }) {
    const [, from, to] = /^(\d{1,19})-(\d{1,19})$/.exec(selected) ?? [];
    this.span = from && BigInt(from) < BigInt(to) ? [BigInt(from), BigInt(to)] : null;
    this.cursor = null;
  }

  began(event, scale) {
    event.currentTarget.setPointerCapture(event.pointerId);
    this.origin = placeOf(event, scale);
    this.cursor = null;
  }

  moved(event, scale) {
    if (this.origin !== null) this.select(this.origin, placeOf(event, scale), false);
  }

  ended(event, scale) {
    if (this.origin === null) return;
    const [origin, here] = [this.origin, placeOf(event, scale)];
    this.origin = null;
    Math.abs(scale.x(here) - scale.x(origin)) > 3 ? this.select(origin, here) : this.clear();
  }

  /** Select the span between two times. With `noted`, the URL has it too, and the browser's back button undoes it. */
  select(a, b, noted = true) {
    this.span = a < b ? [a, b] : [b, a];
    if (noted) this.note();
    this.changed();
  }

  clear() {
    this.span = this.cursor = null;
    this.note();
    this.changed();
  }

  note() {
    const selected = this.span && this.span.join("-");
    note({ selected }, (current().parameters.selected ?? null) === null); // the back button leads to before the first selection
  }

  pressed(event, scale) {
    const by = { ArrowLeft: -1n, ArrowRight: 1n }[event.key];
    if (by) this.step(by * ((scale.toNs - scale.fromNs) / 60n || 1n), scale, event.shiftKey);
    else if (event.key === "Enter" && this.span) this.taken();
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  step(by, { fromNs, toNs }, extends_) {
    const before = this.cursor ?? fromNs;
    this.cursor = clamp(before + by, fromNs, toNs);
    if (!extends_) return this.changed();
    const fixed = this.span ? (this.span[0] === before ? this.span[1] : this.span[0]) : before;
    return this.select(fixed, this.cursor);
  }
}

const placeOf = (event, scale) => scale.at(event.clientX - event.currentTarget.ownerSVGElement.getBoundingClientRect().left);
const clamp = (value, low, high) => (value < low ? low : value > high ? high : value);
