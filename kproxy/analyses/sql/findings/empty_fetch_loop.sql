/*
id: empty_fetch_loop
title: Consumers that poll brokers without waiting
severity: notice
meaning: >
  A fetch waits at the broker until there is something, by default up to half a second. This client's fetches return empty at once, many
  times a second: they cost both sides processor time and bring nothing.
basis:
  rests_on: empty answers to Fetch in the busiest minute
  certainty: measured
  wrong_if: that minute was an exception, as at a start
columns:
  fetches: Fetch requests that were answered without an error
  empty: Fetch requests whose answer had no records
  empty_in_busiest_minute: empty answers in the minute with the most
  max_wait_ms: lowest fetch.max.wait.ms, in milliseconds
  min_bytes: lowest fetch.min.bytes, in bytes
  empty_seconds: seconds of that minute with empty answers
  waits_little: "whether max_wait_ms is less than 100, so that its own setting is the cause"
action: Set fetch.max.wait.ms back to 500 and fetch.min.bytes to at least 1; do not poll partitions that another thread has paused or closed.
reference: https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.wait.ms
parameters:
  min_empty_per_minute: {default: 600, meaning: "Fewer empty fetches on one connection, in its busiest minute, are not listed."}
  min_seconds: {default: 5, meaning: "Clients with empty fetches in fewer seconds of that minute are not listed: after a broker's restart some do so for a moment."}
  min_empty_percent: {default: 90, most: 100, meaning: "Clients with a smaller share of empty fetches are not listed."}
verdict: "{rows:consumer fetches/consumers fetch} without waiting. {most empty_in_busiest_minute}: {client_id} at {client_address}, {empty_in_busiest_minute:,} empty answers in one minute, with fetch.max.wait.ms={max_wait_ms:d}. [{waits_little:?}Set fetch.max.wait.ms=500|{broker} does not wait although it may: look for restarts of brokers at that time, and update the client]."
order: 44
only_if: FROM exchanges WHERE api_key = 1 HAVING count(*) >= $min_empty_per_minute
frame:
  group_by: [client_id, client_address, broker, connection_id]
  values:
    fetches: CAST(sum(fetches) AS BIGINT)
    empty: CAST(sum(empty) AS BIGINT)
    empty_in_busiest_minute: max(empty_in_minute)
    max_wait_ms: min(max_wait_ms)
    min_bytes: min(min_bytes)
    empty_seconds: max(empty_seconds_in_minute)
    waits_little: min(max_wait_ms) < 100
  having: empty_in_busiest_minute >= $min_empty_per_minute AND empty_seconds >= $min_seconds AND empty * 100 >= fetches * $min_empty_percent
  is_summed: true
  order_by: empty_in_busiest_minute DESC
*/
WITH fetched AS (
    SELECT *, CASE WHEN record_batches = 0 THEN 1 ELSE 0 END AS is_empty -- null: the capture has not all of the answer
    FROM client_exchanges
    WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 AND response_at IS NOT NULL AND error_name IS NULL
), parts AS (
    SELECT client_id, client_address, broker, connection_id,
        at_us // 10000000 AS part,
        max(software) AS software,
        count(*) AS fetches,
        CAST(sum(is_empty) AS BIGINT) AS empty,
        count(DISTINCT CASE WHEN is_empty = 1 THEN at_us // 1000000 END) AS empty_seconds,
        min(max_wait_ms) AS max_wait_ms,
        min(min_bytes) AS min_bytes,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        min(CASE WHEN is_empty = 1 THEN example_of(at_us, connection_id, exchange) END) AS example
    FROM fetched
    GROUP BY client_id, client_address, broker, connection_id, at_us // 10000000
)
-- any minute, not one of the clock's: a loop of 40 s would often be two halves of those
SELECT *,
    CAST(sum(empty) OVER a_minute AS BIGINT) AS empty_in_minute,
    CAST(sum(empty_seconds) OVER a_minute AS BIGINT) AS empty_seconds_in_minute
FROM parts
WINDOW a_minute AS (PARTITION BY client_id, client_address, broker, connection_id ORDER BY part RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING)
