/*
id: small_fetches
title: Consumers that lag and yet fetch little at a time
severity: warning
meaning: >
  The consumer is far behind the end of its partitions, and each fetch brings only a little, although the broker could give more. Its
  fetch limits (fetch.max.bytes, max.partition.fetch.bytes) are too small, so it spends its time waiting for requests.
basis:
  rests_on: bytes of answers to Fetch, and how far behind the end they were
  certainty: measured
  wrong_if: the consumer catches up all the same
columns:
  fetches: answers with records while at least min_lag behind
  records: in those answers
  bytes_per_fetch: average bytes of records
  lag: most offsets behind in one answer, over its partitions
  max_bytes: fetch.max.bytes, in bytes
action: Set max.partition.fetch.bytes and fetch.max.bytes back to their defaults (1 MiB and 50 MiB) or above.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.partition.fetch.bytes
parameters:
  min_lag: {default: 1000, meaning: "Offsets behind the end from which a fetch counts."}
  max_fetch_bytes: {default: 16384, most: 2147483647, meaning: "Bytes of records per fetch, on average, up to which it is little."}
  times_fetched: {default: 10, most: 1000000, meaning: "How many times as much as was fetched has to be there still."}
  min_fetches: {default: 50, meaning: "Fewer such fetches on one connection are not listed."}
verdict: "{rows:consumer lags/consumers lag} and yet fetch little at a time. Worst: {client_id} at {client_address}, {bytes_per_fetch:bytes} a fetch, {lag:,} offsets behind. Raise max.partition.fetch.bytes and fetch.max.bytes."
order: 45
only_if: FROM exchanges WHERE record_batches > 0 HAVING count(*) >= $min_fetches
frame:
  group_by: [client_id, client_address, broker, connection_id]
  values:
    fetches: count(*)
    records: CAST(sum(records) AS BIGINT)
    bytes: CAST(sum(record_bytes) AS BIGINT)
    lag: max(lag)
    lags: CAST(sum(lag) AS BIGINT)
    max_bytes: max(max_bytes)
  derived: {bytes_per_fetch: bytes // fetches}
  having: fetches >= $min_fetches AND bytes <= fetches * $max_fetch_bytes AND lags >= $times_fetched * records
  order_by: lag DESC
*/
WITH behind AS (
    SELECT connection_id, exchange,
        CAST(sum(high_watermark - partition_offset) AS BIGINT) AS lag
    FROM client_offsets
    WHERE kind = 'fetch' AND replica_id < 0 AND error_code = 0 AND partition_offset IS NOT NULL AND high_watermark > partition_offset
    GROUP BY connection_id, exchange
)
SELECT e.*, b.lag
FROM behind AS b
JOIN client_exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
WHERE b.lag >= $min_lag AND e.record_batches > 0
