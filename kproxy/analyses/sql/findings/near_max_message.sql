/*
id: near_max_message
title: Single records that nearly fill the largest batch a broker takes
severity: notice
meaning: >
  One record takes up almost all that the broker accepts in a batch (message.max.bytes, by default 1 MiB). The next one that is a
  little larger is refused and lost. Batches of many records do not count: producers make those as large as they may.
  Nor does what is larger and was taken: the topic takes more than was assumed.
basis:
  rests_on: sizes of batches of one record, next to the largest batch that the broker takes
  certainty: measured
  wrong_if: the topic takes larger batches than its broker (max.message.bytes)
columns:
  batches: batches near the limit
  largest_bytes: size of the largest of them, in bytes
  percent_of_max: the same as percent of max_message_bytes
  max_message_bytes: the limit assumed, in bytes
action: Send less per record, compress, or raise max.message.bytes of the topic before it happens.
reference: https://kafka.apache.org/documentation/#brokerconfigs_message.max.bytes
parameters:
  max_message_bytes: {default: 1048588, most: 2147483647, meaning: "max.message.bytes of the topic; the default is the broker's."}
  min_percent: {default: 90, most: 100, meaning: "Share of it from which a batch of one record is near."}
  max_records: {default: 1, meaning: "Records in a batch up to which it counts."}
verdict: "{count client_id:producer sends/producers send} records near the size limit. Largest: {client_id} to {topic}, {largest_bytes:bytes}, {percent_of_max:d} % of what the broker takes. Send smaller records, or raise max.message.bytes before one is refused."
order: 40
only_if: FROM record_batches WHERE direction = 'produce' AND size * 100 >= $max_message_bytes * $min_percent
frame:
  group_by: [client_id, client_address, cluster, "coalesce(topic, topic_id) AS topic"]
  values:
    example: max(struct_pack(size := size, connection_id := connection_id, exchange := exchange))
  derived:
    percent_of_max: 100 * largest_bytes // nullif(CAST($max_message_bytes AS BIGINT), 0)
    max_message_bytes: CAST($max_message_bytes AS BIGINT)
  order_by: largest_bytes DESC
*/
WITH produced AS (
    SELECT *, coalesce(max(CASE WHEN error_code = 0 THEN size END) OVER (PARTITION BY cluster, coalesce(topic, topic_id)), 0) AS taken
    FROM client_batches
    WHERE direction = 'produce' AND size * 100 >= $max_message_bytes * $min_percent
)
SELECT *
FROM produced
WHERE coalesce(error_code, 0) = 0
    AND count <= $max_records
    AND greatest(size, taken) <= $max_message_bytes
