/*
id: read_committed_blocked
title: Consumers that wait for an open transaction
severity: warning
meaning: >
  A read_committed consumer has read everything up to the last stable offset. Later records are there, but a transaction before them is
  still open, so that it may not see them: its lag grows although nothing is wrong with it.
basis:
  rests_on: fetches from the last stable offset, below the end of the partition
  certainty: measured
  wrong_if: the transaction that holds it back writes on and commits soon
columns:
  last_stable_offset: first offset of the open transaction
  high_watermark: end of the partition
  waiting: offsets from last_stable_offset to high_watermark
  fetches: fetches answered in that state
  seconds: seconds from the first to the last of these fetches
action: Find the producer of the open transaction (finding open_transaction, or kafka-transactions.sh find-hanging) and end it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_isolation.level
parameters:
  min_seconds: {default: 50, meaning: "Shorter waits at the same last stable offset are not listed. A wait until the default transaction.timeout.ms, a minute, is longer."}
  min_fetches: {default: 5, meaning: "Fewer fetches in that state are not listed."}
sampled: Fetches that brought records may be among the exchanges that are missing.
verdict: "{rows:consumer of a partition/consumers of partitions} waited for an open transaction. Longest: {client_id} at {client_address}, at offset {last_stable_offset:d} of {topic}-{partition} for {seconds:,} s; {waiting:offset was/offsets were} held back. If one still waits, end that transaction: kafka-transactions.sh find-hanging."
order: 17
only_if: FROM offsets WHERE kind = 'fetch' AND last_stable_offset >= 0 AND high_watermark > last_stable_offset
frame:
  group_by: [connection_id, client_id, client_address, cluster, broker, topic, partition, last_stable_offset]
  values: {fetches: count(*), high_watermark: max(high_watermark)}
  derived: {waiting: high_watermark - last_stable_offset}
  having: seconds >= $min_seconds AND fetches >= $min_fetches
  order_by: seconds DESC
*/
SELECT f.*
FROM fetch_positions AS f
JOIN exchanges AS e ON e.connection_id = f.connection_id AND e.exchange = f.exchange
WHERE f.error_code = 0 AND f.last_stable_offset >= 0 AND f.high_watermark > f.last_stable_offset AND f.position >= f.last_stable_offset
    AND f.position < f.high_watermark AND coalesce(e.isolation_level, 1) = 1
