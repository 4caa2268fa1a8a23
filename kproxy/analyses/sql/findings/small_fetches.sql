/*
id: small_fetches
title: Consumers that lag and yet fetch little at a time
severity: warning
meaning: >
  The consumer is far behind the end of its partitions, and each fetch brings only a little, although the broker could give more. Its
  fetch limits (fetch.max.bytes, max.partition.fetch.bytes) are too small, so it spends its time waiting for requests.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  fetches: answers with records while at least min_lag behind
  records: in those answers
  bytes_per_fetch: average bytes of records
  lag: most offsets behind in one answer, over its partitions
  max_bytes: fetch.max.bytes, in bytes
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set max.partition.fetch.bytes and fetch.max.bytes back to their defaults (1 MiB and 50 MiB) or above.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.partition.fetch.bytes
parameters:
  min_lag: {default: 1000, meaning: "Offsets behind the end from which a fetch counts."}
  max_fetch_bytes: {default: 16384, most: 2147483647, meaning: "Bytes of records per fetch, on average, up to which it is little."}
  times_fetched: {default: 10, most: 1000000, meaning: "How many times as much as was fetched has to be there still."}
  min_fetches: {default: 50, meaning: "Fewer such fetches on one connection are not listed."}
needs: [client_offsets, client_exchanges]
verdict: "{rows:consumer lags/consumers lag} and yet fetch little at a time. Worst: {client_id} at {client_address}, {bytes_per_fetch:bytes} a fetch, {lag:,} offsets behind. Raise max.partition.fetch.bytes and fetch.max.bytes."
order: 45
*/
WITH behind AS (
    SELECT
        connection_id,
        exchange,
        CAST(sum(high_watermark - offset) AS BIGINT) AS lag
    FROM client_offsets
    WHERE kind = 'fetch' AND replica_id < 0 AND error_code = 0 AND offset IS NOT NULL AND high_watermark > offset
    GROUP BY connection_id, exchange
),
found AS (
    SELECT
        e.client_id,
        e.client_address,
        e.broker,
        e.connection_id,
        max(e.software) AS software,
        count(*) AS fetches,
        CAST(sum(e.records) AS BIGINT) AS records,
        CAST(sum(e.record_bytes) AS BIGINT) AS bytes,
        max(b.lag) AS lag,
        CAST(sum(b.lag) AS BIGINT) AS lags,
        max(e.max_bytes) AS max_bytes,
        min(e.at) AS first_at,
        max(e.at) AS last_at,
        min(e.exchange) AS exchange
    FROM behind AS b
    JOIN client_exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
    WHERE b.lag >= :min_lag AND e.record_batches > 0
    GROUP BY e.client_id, e.client_address, e.broker, e.connection_id
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    fetches,
    records,
    bytes DIV fetches AS bytes_per_fetch,
    lag,
    max_bytes,
    first_at,
    last_at,
    connection_id,
    exchange
FROM found
WHERE fetches >= :min_fetches AND bytes <= fetches * :max_fetch_bytes AND lags >= :times_fetched * records
ORDER BY lag DESC, client_id, client_address, connection_id
