/** Questions to the server: JSON of page/api/…, its errors, its events. */

import { queryOf } from "./route.js";

/**
 * An answer with status 4xx or 5xx, or none (status 0): `message` is a sentence; `column` (from 1) and `length` where it is in a
 * filter; `said` is all of the answer.
 */
export class Refused extends Error {
  constructor(message, said = {}, status = 0) {
    super(message);
    this.column = said.column ?? null;
    this.length = said.length ?? null;
    this.said = said;
    this.status = status;
  }
}

export const address = (path, parameters = {}) => `page/api/${path}${queryOf(parameters)}`;

export async function get(path, parameters = {}, signal = undefined) {
  return read(await asked(address(path, parameters), { signal }));
}

/** The bytes of an answer that is no JSON. */
export async function getBytes(path, signal = undefined) {
  const answer = await asked(address(path), { signal });
  return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : read(answer);
}

export async function post(path, body, token, { method = "POST", signal = undefined } = {}) {
  const headers = { "Content-Type": "application/json", "X-Kproxy-Token": token };
  return read(await asked(address(path), { method, signal, headers, body: JSON.stringify(body) }));
}

let watcher = () => {};

/** Call `told(whether)` after each question: whether the server answered at all. */
export const watchAnswers = (told) => {
  watcher = told;
};

async function asked(url, how) {
  try {
    const answer = await fetch(url, { ...how, credentials: "same-origin", redirect: "error" });
    watcher(true);
    return answer;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    watcher(false);
    throw new Refused("The server does not answer; is kproxy still running?");
  }
}

async function read(answer) {
  const text = await answer.text();
  let said = null;
  try {
    said = JSON.parse(text);
  } catch {
    throw new Refused(`The server answered ${answer.status} without an explanation.`, {}, answer.status);
  }
  if (!answer.ok) throw new Refused(said.error ?? `The server answered ${answer.status}.`, said, answer.status);
  return said;
}

const AGAIN_MS = 1500;

/**
 * Call `seen(name, data)` for each event of the server, and `lost()` when the connection to it ends. It is connected again, by the
 * browser or, where that has given up as the server answered with an error, here. `close()` of what is returned ends that.
 */
export function events(names, seen, lost = () => {}) {
  let source = null;
  let timer = 0;
  const connect = () => {
    source = new EventSource("page/api/events");
    for (const name of names) source.addEventListener(name, (event) => seen(name, JSON.parse(event.data)));
    source.addEventListener("error", () => {
      lost();
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(connect, AGAIN_MS);
    });
  };
  connect();
  return {
    close: () => {
      clearTimeout(timer);
      source.close();
    },
  };
}
