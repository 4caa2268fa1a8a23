/** Requests to the server: JSON from page/api/…, errors, and events. */

import { queryOf } from "./route.js";

/**
 * Thrown for an answer with status 4xx or 5xx, or for no answer (status 0). `message` is a sentence; `column` (from 1) and `length`
 * say where in a filter the mistake is; `body` is the whole answer.
 */
export class Refused extends Error {
  constructor(message, body = {}, status = 0) {
    super(message);
    this.column = body.column ?? null;
    this.length = body.length ?? null;
    this.body = body;
    this.status = status;
  }
}

export const address = (path, parameters = {}) => `page/api/${path}${queryOf(parameters)}`;

export async function get(path, parameters = {}, signal = undefined) {
  return read(await request(address(path, parameters), { signal }));
}

/** Get the bytes of an answer that is not JSON. */
export async function getBytes(path, signal = undefined) {
  const answer = await request(address(path), { signal });
  return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : read(answer);
}

export async function post(path, body, token, { method = "POST", signal = undefined } = {}) {
  const headers = { "Content-Type": "application/json", "X-Kproxy-Token": token };
  return read(await request(address(path), { method, signal, headers, body: JSON.stringify(body) }));
}

let watcher = () => {};

/** Call `answered(whether)` after each request, with whether the server answered at all. */
export const watchAnswers = (answered) => {
  watcher = answered;
};

async function request(url, how, isRepeated = false) {
  try {
    const answer = await fetch(url, { ...how, credentials: "same-origin", redirect: "error" });
    watcher(true);
    return answer;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // browsers end all connections when a network of the machine changes, even those to the machine itself
    if (!how.method && !isRepeated) return request(url, how, true);
    watcher(false);
    throw new Refused("The server does not answer; is kproxy still running?");
  }
}

async function read(answer) {
  const text = await answer.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refused(`The server answered ${answer.status} without an explanation.`, {}, answer.status);
  }
  if (!answer.ok) throw new Refused(body.error ?? `The server answered ${answer.status}.`, body, answer.status);
  return body;
}

const AGAIN_MS = 1500;

/**
 * Call `seen(name, data)` for each event of the server, and `lost()` when the connection to it ends. The browser reconnects; after an
 * error status it gives up, and this function reconnects. Call `close()` of the returned object to end it.
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
