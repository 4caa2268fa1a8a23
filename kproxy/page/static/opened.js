/** The exchange below the table: whichever was asked for last, however fast somebody goes from one to the next. */

import { get } from "./api.js";
import { say } from "./asking.js";
import { Detail } from "./detail.js";

export class Opened {
  /** `doings` are those of Detail, with `opened(number)`: its exchange is shown. */
  constructor(place, doings) {
    this.place = place;
    this.doings = doings;
    this.number = null; // of the exchange that is shown
    this.wanted = null; // number of the one that is to be shown
    this.asking = null; // what ends when no question is left
    this.detail = new Detail(place, doings);
  }

  /** Show an exchange; `focus`: the focus goes into it. One question at a time; the one in between are passed over. */
  async show(number, focus) {
    this.wanted = number;
    this.asking ??= this.ask().finally(() => { this.asking = null; });
    await this.asking;
    if (focus && this.number === number) this.place.querySelector("[role=tab][aria-selected=true]")?.focus();
  }

  async ask() {
    while (this.wanted !== null && this.wanted !== this.number) {
      const number = this.wanted;
      try {
        const exchange = await get(`exchanges/${number}`);
        if (this.wanted !== number) continue;
        this.number = number;
        this.place.hidden = false;
        this.detail.show(exchange);
        this.doings.opened(number);
      } catch (error) {
        if (this.wanted !== number) continue;
        this.wanted = this.number;
        say(error.message);
      }
    }
  }

  /** The row of an exchange, all of its columns: of the one that is shown, or asked for. */
  async rowOf(number) {
    const { exchange } = this.detail;
    return exchange?.number === number ? exchange.row : (await get(`exchanges/${number}`)).row;
  }

  close() {
    this.place.hidden = true;
    this.detail.close();
    this.number = this.wanted = null;
  }
}
