/**
 * A list of any number of rows of one height, of which only the visible ones are in the document.
 *
 * Browsers cap the height of an element at about 17 (Firefox) or 33 (Chromium) million pixels, so the space to scroll in is
 * capped and stands for all rows: a long way of the scroll bar is scaled to rows, and small steps (wheel, touch, keys) move by
 * as many pixels as they say. `first` is the row at the top, with its fraction; it is what counts, not scrollTop.
 *
 *     <div class="scroller">  [head, sticky]  <div class="pane"></div>  <div class="space"></div>  </div>
 */

const MOST_PIXELS = 8_000_000;

export class Windowed {
  /** `draw(from, to, shift)` has to fill `pane` with rows from..to-1, the first of them `shift` pixels above its top. */
  constructor({ scroller, pane, space, rowHeight, headHeight = 0, draw }) {
    Object.assign(this, { scroller, pane, space, rowHeight, headHeight, draw });
    this.total = 0;
    this.first = 0;
    this.seenTop = 0; // scrollTop when it was last looked at
    this.height = scroller.clientHeight; // not read for each frame, as that would lay out what was just changed
    this.asked = false; // whether it will be drawn before the next frame
    this.closed = false;
    this.listening = new AbortController();
    const { signal } = this.listening;
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true, signal });
    scroller.addEventListener("scrollend", () => this.align(), { signal });
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(scroller);
  }

  /** The list in the scroller of a place, whose pane and space are in it. */
  static inside(scroller, rowHeight, draw) {
    return new Windowed({ scroller, pane: scroller.querySelector(".pane"), space: scroller.querySelector(".space"), rowHeight, draw });
  }

  /** Rows that fit, with the fraction. */
  get capacity() {
    return Math.max((this.height - this.headHeight) / this.rowHeight, 1);
  }

  get lastFirst() {
    return Math.max(this.total - this.capacity, 0);
  }

  get spacePixels() {
    return Math.min(this.total * this.rowHeight, MOST_PIXELS);
  }

  get maxTop() {
    return Math.max(this.spacePixels + this.headHeight - this.height, 0);
  }

  setTotal(total) {
    const changed = total !== this.total;
    this.total = total;
    this.first = Math.min(this.first, this.lastFirst);
    if (changed) {
      this.space.style.height = `${this.spacePixels}px`;
      this.align();
    }
    this.ask();
  }

  resized() {
    this.height = this.scroller.clientHeight;
    this.first = Math.min(this.first, this.lastFirst);
    this.align();
    this.ask();
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    const moved = top - this.seenTop;
    if (moved === 0) return this.ask(); // sideways
    this.seenTop = top;
    if (top <= 0) this.first = 0;
    else if (top >= this.maxTop - 1) this.first = this.lastFirst;
    else if (Math.abs(moved) < 2 * this.height) this.first += moved / this.rowHeight;
    else this.first = (top / this.maxTop) * this.lastFirst;
    this.first = Math.min(Math.max(this.first, 0), this.lastFirst);
    this.ask();
  }

  /** Put the scroll bar where it belongs for `first`. */
  align() {
    const top = this.lastFirst > 0 ? (this.first / this.lastFirst) * this.maxTop : 0;
    // the ends of the bar are for the ends of the list only
    const inside = this.first > 0 && this.first < this.lastFirst ? Math.min(Math.max(top, 1), this.maxTop - 2) : top;
    if (Math.abs(inside - this.scroller.scrollTop) >= 1) this.scroller.scrollTop = inside;
    this.seenTop = this.scroller.scrollTop;
  }

  scrollTo(row) {
    this.first = Math.min(Math.max(row, 0), this.lastFirst);
    this.align();
    this.ask();
  }

  /** Scroll as little as is needed for the row to be seen. */
  reveal(row) {
    this.height = this.scroller.clientHeight; // something else may just have been shown beside it
    if (row < this.first) this.scrollTo(row);
    else if (row + 1 > this.first + this.capacity) this.scrollTo(row + 1 - this.capacity);
    else this.ask();
  }

  /** Draw before the next frame, once however often it is asked for. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (!this.closed) this.now();
    });
  }

  now() {
    const from = Math.floor(this.first);
    const to = Math.min(Math.ceil(this.first + this.capacity) + 1, this.total);
    this.draw(from, to, (this.first - from) * this.rowHeight);
  }

  /** Give rows and head another height; the row at the top stays there. */
  setHeights(rowHeight, headHeight) {
    if (rowHeight === this.rowHeight && headHeight === this.headHeight) return;
    Object.assign(this, { rowHeight, headHeight });
    this.space.style.height = `${this.spacePixels}px`;
    this.resized();
  }

  close() {
    this.closed = true;
    this.listening.abort();
    this.observer.disconnect();
  }
}
