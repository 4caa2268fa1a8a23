/** One colour for each API, in every view and every source; names that are not APIs take colours in their order. */

// The 24 APIs that are seen most have a colour of their own, those that often stand side by side far apart; the class is .k0, .k1, …
const APIS = [
  "Fetch", "Produce", "Metadata", "ApiVersions", "FindCoordinator", "OffsetCommit", "JoinGroup", "Heartbeat", "SyncGroup", "OffsetFetch",
  "ListOffsets", "InitProducerId", "LeaveGroup", "EndTxn", "AddPartitionsToTxn", "ConsumerGroupHeartbeat", "TxnOffsetCommit", "OffsetForLeaderEpoch",
  "AddOffsetsToTxn", "CreateTopics", "DescribeConfigs", "SaslAuthenticate", "SaslHandshake", "DescribeGroups",
];
const COLOURS = new Map(APIS.map((name, at) => [name, at]));
const FIRST_OF_ORDER = 12; // colours that are told apart best

/** The class that gives an API its colour. The other APIs share the later colours, each always the same one. */
export function colourOfApi(name) {
  const hash = [...name].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 65_521, 7);
  return `k${COLOURS.get(name) ?? FIRST_OF_ORDER + (hash % FIRST_OF_ORDER)}`;
}

/** The class of the series number `at` of a chart, of what is no API. */
export const colourOfOrder = (at) => `k${at % FIRST_OF_ORDER}`;
