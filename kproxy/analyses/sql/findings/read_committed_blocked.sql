/*
id: read_committed_blocked
title: Consumers that wait for an open transaction
severity: warning
meaning: >
  A read_committed consumer has read everything up to the last stable offset. Later records are there, but a transaction before them is
  still open, so that it may not see them: its lag grows although nothing is wrong with it.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  topic: ""
  partition: ""
  last_stable_offset: first offset of the open transaction
  high_watermark: end of the partition
  waiting: offsets between the two
  fetches: fetches answered in that state
  seconds: between the first and the last of them
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Find the producer of the open transaction (finding open_transaction, or kafka-transactions.sh find-hanging) and end it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_isolation.level
parameters:
  min_seconds: {default: 60, meaning: "Shorter waits at the same last stable offset are not listed."}
  min_fetches: {default: 5, meaning: "Fewer fetches in that state are not listed."}
sampled: Fetches that brought records may be among the exchanges that are missing.
needs: [fetch_positions]
verdict: "{rows:partition/partitions} where a consumer waits for an open transaction. Longest: {client_id} at {client_address}, at offset {last_stable_offset:d} of {topic}-{partition} for {seconds:,} s; {waiting:offset is/offsets are} held back. End that transaction: kafka-transactions.sh find-hanging."
order: 17
*/
WITH found AS (
    SELECT
        connection_id,
        client_id,
        client_address,
        cluster,
        broker,
        topic,
        partition,
        last_stable_offset,
        max(software) AS software,
        count(*) AS fetches,
        max(high_watermark) AS high_watermark,
        (max(at_us) - min(at_us)) DIV 1000000 AS seconds,
        min(at) AS first_at,
        max(at) AS last_at,
        min(exchange) AS exchange
    FROM fetch_positions
    WHERE error_code = 0 AND last_stable_offset >= 0 AND high_watermark > last_stable_offset AND position >= last_stable_offset
    GROUP BY connection_id, client_id, client_address, cluster, broker, topic, partition, last_stable_offset
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    topic,
    partition,
    last_stable_offset,
    high_watermark,
    high_watermark - last_stable_offset AS waiting,
    fetches,
    seconds,
    cluster,
    first_at,
    last_at,
    connection_id,
    exchange
FROM found
WHERE seconds >= :min_seconds AND fetches >= :min_fetches
ORDER BY seconds DESC, client_id, client_address, topic, partition, last_stable_offset, connection_id, cluster
