/*
id: empty_fetch_loop
title: Consumers that poll brokers without waiting
severity: warning
meaning: >
  A fetch waits at the broker until there is something, by default up to half a second. This client's fetches return empty at once, many
  times a second: they cost both sides processor time and bring nothing.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  fetches: Fetch requests that were answered without an error
  empty: of those, without records
  empty_in_busiest_minute: of the empty ones
  max_wait_ms: least fetch.max.wait.ms, in milliseconds
  min_bytes: least fetch.min.bytes, in bytes
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set fetch.max.wait.ms back to 500 and fetch.min.bytes to at least 1; do not poll partitions that another thread has paused or closed.
reference: https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.wait.ms
parameters:
  min_empty_per_minute: {default: 600, meaning: "Fewer empty fetches on one connection, in its busiest minute, are not listed."}
  min_empty_percent: {default: 90, most: 100, meaning: "Share of its fetches that have to be empty."}
needs: [client_exchanges]
verdict: "{rows:consumer fetches/consumers fetch} without waiting. Most: {client_id} at {client_address}, {empty_in_busiest_minute:,} empty answers in one minute, with fetch.max.wait.ms={max_wait_ms:d}. Set fetch.max.wait.ms=500."
order: 44
*/
WITH fetched AS (
    SELECT *, CASE WHEN coalesce(record_batches, 0) = 0 THEN 1 ELSE 0 END AS is_empty
    FROM client_exchanges
    WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 AND response_at IS NOT NULL AND error_name IS NULL
),
minutes AS (
    SELECT
        client_id,
        client_address,
        broker,
        connection_id,
        at_us DIV 60000000 AS minute,
        max(software) AS software,
        count(*) AS fetches,
        CAST(sum(is_empty) AS BIGINT) AS empty,
        min(max_wait_ms) AS max_wait_ms,
        min(min_bytes) AS min_bytes,
        min(at) AS first_at,
        max(at) AS last_at,
        min(CASE WHEN is_empty = 1 THEN exchange END) AS exchange
    FROM fetched
    GROUP BY client_id, client_address, broker, connection_id, at_us DIV 60000000
),
found AS (
    SELECT
        client_id,
        client_address,
        broker,
        connection_id,
        max(software) AS software,
        CAST(sum(fetches) AS BIGINT) AS fetches,
        CAST(sum(empty) AS BIGINT) AS empty,
        max(empty) AS empty_in_busiest_minute,
        min(max_wait_ms) AS max_wait_ms,
        min(min_bytes) AS min_bytes,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(exchange) AS exchange
    FROM minutes
    GROUP BY client_id, client_address, broker, connection_id
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    fetches,
    empty,
    empty_in_busiest_minute,
    max_wait_ms,
    min_bytes,
    first_at,
    last_at,
    connection_id,
    exchange
FROM found
WHERE empty_in_busiest_minute >= :min_empty_per_minute AND empty * 100 >= fetches * :min_empty_percent
ORDER BY empty_in_busiest_minute DESC, client_id, client_address, connection_id
