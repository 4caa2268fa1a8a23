/** The view Breakpoints where there are none: why, and how they are allowed. */

import { doneEntry } from "./decided.js";
import { html, render } from "./lit-html.js";

const YAML = "page:\n  edits: true\n";
export const KEYS = [];

export class BreakpointsOff {
  /** *stopped* is what there was until the configuration took it away, or null. */
  constructor(place, source, stopped) {
    this.place = place;
    place.classList.add("page");
    render(
      html`<h2>Breakpoints</h2>
        ${source.live ? html`<p>Requests and responses can be stopped and changed here once the configuration of <code>kproxy run</code> allows it; load the page anew then:</p>
            <pre class="command">${YAML}</pre><p class="note">It is for tests: it changes what clients see. Who has the token in kproxy's log may do it.</p>`
          : html`<p>This is what was captured. Requests and responses can be stopped in the live page of <code>kproxy run</code>, with <code>page: {edits: true}</code> in its configuration.</p>`}
        ${stopped?.off ? html`<p class="warning" role="status">They were allowed until now: the configuration has changed.</p>` : ""}
        <div class="done">${(stopped?.done ?? []).map((one, at) => doneEntry(one, at))}</div>`,
      place,
    );
  }

  async enter() {}

  close() {
    this.place.classList.remove("page");
  }
}
