/*
id: corrupt_batches
title: Record batches whose checksum is wrong
severity: critical
meaning: >
  The checksum of a record batch does not match its bytes, or the broker said so (CORRUPT_MESSAGE). In a Produce request: the client or
  the network damaged it. In a Fetch response: the broker's disk did, and consumers cannot get past it.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  topic: ""
  partition: ""
  direction: produced or fetched
  batches: batches with a wrong checksum, or refused as corrupt
  refused: of those, refused by the broker
  base_offset: the lowest in these batches; of produced ones as the producer wrote it
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Produced: update the client, check that host's memory and network. Fetched: check the broker's disk; let the leader move to a replica
  whose copy is good.
reference: https://kafka.apache.org/documentation/#messageformat
parameters:
  min_batches: {default: 1, meaning: "Fewer such batches in a partition are not listed."}
needs: [client_batches]
verdict: "{rows:partition/partitions} with damaged record batches. Most: {topic}-{partition}, {batches:,} {direction} by {client_id} at {client_address} via {broker}. If produced, check that client's host; if fetched, that broker's disk."
order: 10
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        broker,
        direction,
        coalesce(topic, topic_id) AS topic,
        partition,
        max(software) AS software,
        count(*) AS batches,
        count(CASE WHEN error_code = 2 THEN 1 END) AS refused,
        min(base_offset) AS base_offset,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_batches
    WHERE crc_valid = false OR (direction = 'produce' AND error_code = 2)
    GROUP BY client_id, client_address, cluster, broker, direction, coalesce(topic, topic_id), partition
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    topic,
    partition,
    CASE WHEN direction = 'produce' THEN 'produced' ELSE 'fetched' END AS direction,
    batches,
    refused,
    base_offset,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE batches >= :min_batches
ORDER BY batches DESC, client_id, client_address, broker, direction, topic, partition, cluster
