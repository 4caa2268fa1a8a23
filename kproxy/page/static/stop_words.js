/** A stopped message in words. */

/** "Produce v9 request" */
export const titleOf = (stop) => `${stop.api} v${stop.apiVersion} ${stop.direction}`;

/** "4.2 s", "58 s" */
export const seconds = (ms) => (ms < 9_950 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`);
