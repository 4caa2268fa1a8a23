/**
 * A list of any number of rows of one height; only the visible rows are in the document.
 *
 * Browsers cap the height of an element at about 17 (Firefox) or 33 (Chromium) million pixels, so the space to scroll in is
 * capped and stands for all rows: dragging the scroll bar is scaled to rows, while small steps (wheel, touch, keys) move by their
 * pixels. `first`, the row at the top with its fraction, is the position; scrollTop only follows it.
 *
 *     <div class="scroller">  [head, sticky]  <div class="pane"></div>  <div class="space"></div>  </div>
 */

const MOST_PIXELS = 8_000_000;

export class Windowed {
  /** `draw(from, to, shift)` fills `pane` with rows from..to-1; the first begins `shift` pixels above the top. */
  constructor({ scroller, pane, space, rowHeight, headHeight = 0, draw }) {
    Object.assign(this, { scroller, pane, space, rowHeight, headHeight, draw });
    this.total = 0;
    this.first = 0;
    this.seenTop = 0; // scrollTop when last read
    this.height = scroller.clientHeight; // reading it in each frame would force a layout
    this.scheduled = false; // whether a drawing is scheduled for the next frame
    this.closed = false;
    this.listening = new AbortController();
    const { signal } = this.listening;
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true, signal });
    scroller.addEventListener("scrollend", () => this.align(), { signal });
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(scroller);
  }

  /** Return the list of a scroller that contains its pane and space. */
  static inside(scroller, rowHeight, draw) {
    return new Windowed({ scroller, pane: scroller.querySelector(".pane"), space: scroller.querySelector(".space"), rowHeight, draw });
  }

  /** How many rows fit, with a fraction. */
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
    this.schedule();
  }

  resized() {
    this.height = this.scroller.clientHeight;
    this.first = Math.min(this.first, this.lastFirst);
    this.align();
    this.schedule();
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    const moved = top - this.seenTop;
    if (moved === 0) return this.schedule(); // scrolled sideways
    this.seenTop = top;
    if (top <= 0) this.first = 0;
    else if (top >= this.maxTop - 1) this.first = this.lastFirst;
    else if (Math.abs(moved) < 2 * this.height) this.first += moved / this.rowHeight;
    else this.first = (top / this.maxTop) * this.lastFirst;
    this.first = Math.min(Math.max(this.first, 0), this.lastFirst);
    this.schedule();
  }

  /** Move the scroll bar to where `first` is. */
  align() {
    const top = this.lastFirst > 0 ? (this.first / this.lastFirst) * this.maxTop : 0;
    // the bar is at its ends only for the ends of the list
    const inside = this.first > 0 && this.first < this.lastFirst ? Math.min(Math.max(top, 1), this.maxTop - 2) : top;
    if (Math.abs(inside - this.scroller.scrollTop) >= 1) this.scroller.scrollTop = inside;
    this.seenTop = this.scroller.scrollTop;
  }

  scrollTo(row) {
    this.first = Math.min(Math.max(row, 0), this.lastFirst);
    this.align();
    this.schedule();
  }

  /** Scroll as little as is needed for the row to be seen. */
  reveal(row) {
    this.height = this.scroller.clientHeight; // the detail may just have been opened below
    if (row < this.first) this.scrollTo(row);
    else if (row + 1 > this.first + this.capacity) this.scrollTo(row + 1 - this.capacity);
    else this.schedule();
  }

  /** Draw before the next frame, once even if called several times. */
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      if (!this.closed) this.now();
    });
  }

  now() {
    const from = Math.floor(this.first);
    const to = Math.min(Math.ceil(this.first + this.capacity) + 1, this.total);
    this.draw(from, to, (this.first - from) * this.rowHeight);
  }

  /** Change the heights of rows and heading; the top row stays at the top. */
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
