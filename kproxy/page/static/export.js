/** Export the selected exchanges: as a file, or as a command for a terminal. */

import { address, get } from "./api.js";
import { ask, copyButton } from "./asking.js";
import { visible } from "./text.js";
import { html, render } from "./lit-html.js";

const FORMATS = [
  { id: "pcapng", title: "pcapng", meaning: "packets, for Wireshark" },
  { id: "pcapng-anonymized", title: "pcapng, anonymized", meaning: "names and values replaced, as kproxy decode --anonymize writes them" },
  { id: "jsonl", title: "JSON lines", meaning: "the decoded log, one exchange a line" },
  { id: "parquet", title: "Parquet", meaning: "tables, for DuckDB and Spark" },
];

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
    const again = replay ? html`<p class="note">To send its requests to a cluster; without <code>--yes</code>, to see what they would do there:</p>${line(replay)}` : "";
    render(html`${before}${line(command)}${again}`, place);
    drawFormats(impossible);
  } catch (error) {
    render(html`<p class="critical">${visible(error.message)}</p>`, place);
  }
}

const line = (command) => html`<pre class="command">${visible(command, 20_000)}</pre>${copyButton(command)}`;
