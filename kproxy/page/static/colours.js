/** One colour for each API, the same in every view and every source. Other series are coloured in their order. */

// The 24 most common APIs have a colour of their own: the first has class .k0, the second .k1, …
const APIS = [
  "Fetch", "Produce", "Metadata", "ApiVersions", "FindCoordinator", "OffsetCommit", "JoinGroup", "Heartbeat", "SyncGroup", "OffsetFetch",
  "ListOffsets", "InitProducerId", "LeaveGroup", "EndTxn", "AddPartitionsToTxn", "ConsumerGroupHeartbeat", "TxnOffsetCommit", "OffsetForLeaderEpoch",
  "AddOffsetsToTxn", "CreateTopics", "DescribeConfigs", "SaslAuthenticate", "SaslHandshake", "DescribeGroups",
];
const COLOURS = new Map(APIS.map((name, at) => [name, at]));
const FIRST_OF_ORDER = 12; // the colours that differ most from each other

/** Return the class with the colour of an API. Rare APIs share the colours from .k12 on, by a hash of the name. */
export function colourOfApi(name) {
  const hash = [...name].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 65_521, 7);
  return `k${COLOURS.get(name) ?? FIRST_OF_ORDER + (hash % FIRST_OF_ORDER)}`;
}

/** Return the class with the colour of a chart's series number `at`, if it is not an API. */
export const colourOfOrder = (at) => `k${at % FIRST_OF_ORDER}`;
