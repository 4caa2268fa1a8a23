/** What stood in a line of text before, and after: scripts that write into an input make the browser forget it. */

const MOST = 200; // states

export class Undo {
  constructor(text = "") {
    this.states = [text];
    this.at = 0;
  }

  /** The text is another now. Letters of one word are one step. */
  put(text) {
    const present = this.states[this.at];
    if (text === present) return;
    const goesOn = this.at > 0 && this.at === this.states.length - 1 && isLetterMore(present, text) && isLetterMore(this.states[this.at - 1], present);
    this.states.length = this.at + 1;
    if (goesOn) this.states.pop();
    this.states.push(text);
    if (this.states.length > MOST) this.states.shift();
    this.at = this.states.length - 1;
  }

  /** The text before (-1) or after (1); null where there is none. */
  step(by) {
    if (!(this.at + by in this.states)) return null;
    this.at += by;
    return this.states[this.at];
  }
}

const isLetterMore = (before, after) => after.startsWith(before) && /^\w+$/.test(after.slice(before.length));
