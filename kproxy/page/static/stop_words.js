/** Describe a stopped message in words. */

/** "Produce v9 request" */
export const titleOf = (stop) => `${stop.api} v${stop.apiVersion} ${stop.direction}`;

/** "4.2 s", "58 s" */
export const seconds = (ms) => (ms < 9_950 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`);

const WAITS = "The client waits as long as it does for a response (request.timeout.ms: 30 s by default), closes the connection, and usually sends it again on another one";

/** Return what each decision does, as {name: sentences}, above all what the client sees. */
export function effectsOf({ api, direction, expectsResponse, canFail }) {
  const isRequest = direction === "request";
  const errors = isRequest
    ? `The client gets a response with the error; the broker never sees the request.${expectsResponse ? "" : " To this one, a Produce with acks=0, it expects none and gets none."}`
    : "The client reads the error in place of the broker's answer; what the broker did stays done.";
  const behind = isRequest ? "all that it sends behind this on the connection" : "all responses behind this on the connection";
  return {
    Resume: "It goes on as it came, byte for byte.",
    Error: canFail ? errors : `A response of ${api} has no place for an error: drop it or close the connection.`,
    Drop: expectsResponse
      ? `It is forgotten, and so is ${behind}, as the client would take one response for another. ${WAITS}.`
      : "It is forgotten. It is a Produce with acks=0, to which the client expects no response: it notices nothing.",
    Close: `Both sides are closed at once. The client connects again, and usually sends it again${isRequest ? "" : "; what the broker did stays done"}.`,
  };
}
