/** New exchanges in the table: followed to the last, or held back. */

export class Following {
  /** `scroll()` has to go to the last row; `drawn()` shows the state. */
  constructor({ scroll, drawn }) {
    Object.assign(this, { scroll, drawn });
    this.on = false;
    this.paused = false;
    this.missed = null; // the last news while it was paused
  }

  /** News of the server: whether the view takes them now. */
  takes(news) {
    if (this.paused) this.missed = news;
    return !this.paused;
  }

  rowsChanged() {
    if (this.on && !this.paused) this.scroll();
  }

  follow() {
    this.on = !this.on;
    if (this.on) this.scroll();
    this.drawn();
  }

  /** Pause, or go on; the news that were missed meanwhile. */
  pause() {
    this.paused = !this.paused;
    const { missed } = this;
    this.missed = null;
    this.drawn();
    return missed;
  }
}
