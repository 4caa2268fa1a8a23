/*
id: corrupt_batches
title: Record batches that are damaged
severity: critical
meaning: >
  The checksum of a record batch does not match its bytes, or the broker refused it as corrupt (CORRUPT_MESSAGE). In a Produce request
  the client or the network damaged it; it is critical unless the records were acknowledged when they were sent again. In a Fetch
  response the broker's disk did, and consumers cannot get past it, unless the same batch also came whole. A produced batch
  with a wrong checksum that the broker took was damaged by the capture, and is left out. A refused one with a right checksum is no
  damage: brokers before 2.4 refuse records without a key for a compacted topic so.
basis:
  rests_on: checksums of batches, and CORRUPT_MESSAGE in answers
  certainty: measured
  wrong_if: the capture itself was damaged (another capture of the same packets is whole)
columns:
  severity: "notice: its records were acknowledged or read another time; else critical"
  direction: produced or fetched
  reason: what is wrong
  batches: batches with a wrong checksum, or refused as corrupt
  refused: batches that the broker refused
  base_offset: lowest base offset of these batches; for produced ones as the producer wrote it
action: >
  Produced: update the client, check that host's memory and network; with a right checksum, give each record a key. Fetched: check the
  broker's disk; let the leader move to a replica whose copy is good.
reference: https://kafka.apache.org/documentation/#messageformat
parameters:
  min_batches: {default: 1, meaning: "Fewer such batches in a partition are not listed."}
verdict: "{rows:partition/partitions} with damaged record batches. {most batches}: {topic}-{partition}, {batches:,} {direction} by {client_id} at {client_address} via {broker}: {reason}[{rows where severity=critical:?}|; it came through another time]. If produced, check that client's host; if fetched, that broker's disk."
order: 10
only_if: FROM record_batches WHERE crc_valid = false OR error_code = 2
frame:
  group_by: [client_id, client_address, cluster, broker, direction, topic, partition]
  values:
    refused: count(CASE WHEN error_code = 2 THEN 1 END)
    base_offset: min(base_offset)
    reason: >-
      CASE WHEN min(crc_valid) THEN 'the checksum is right; in a compacted topic, perhaps records without a key'
      ELSE 'the checksum is wrong' END
    is_harmless: min(is_harmless)
  derived:
    severity: CASE WHEN is_harmless THEN 'notice' ELSE 'critical' END
  having: batches >= $min_batches
  order_by: is_harmless, batches DESC
*/
WITH damaged AS (
    SELECT *, coalesce(topic, topic_id) AS topic_or_id FROM client_batches WHERE direction = 'fetch' AND crc_valid = false
), whole AS (
    SELECT DISTINCT g.cluster, coalesce(g.topic, g.topic_id) AS topic_or_id, g.partition, g.base_offset
    FROM client_batches AS g
    JOIN damaged AS d ON d.cluster = g.cluster AND d.topic_or_id = coalesce(g.topic, g.topic_id) AND d.partition = g.partition
        AND d.base_offset = g.base_offset
    WHERE g.direction = 'fetch' AND g.crc_valid
)
SELECT d.client_id, d.client_address, d.software, d.cluster, d.broker, 'fetched' AS direction, d.topic_or_id AS topic, d.partition,
    d.error_code, d.crc_valid, d.base_offset, w.base_offset IS NOT NULL AS is_harmless, d.seen_at, d.at_us, d.connection_id, d.exchange
FROM damaged AS d
LEFT JOIN whole AS w ON w.cluster = d.cluster AND w.topic_or_id = d.topic_or_id AND w.partition = d.partition
    AND w.base_offset = d.base_offset
UNION ALL
SELECT client_id, client_address, software, cluster, broker, 'produced' AS direction, topic, partition,
    error_code, crc_valid, base_offset, outcome = 'acknowledged' AS is_harmless, seen_at, at_us, connection_id, exchange
FROM refused_batches
WHERE error_code = 2
UNION ALL
SELECT b.client_id, b.client_address, b.software, b.cluster, b.broker, 'produced' AS direction, coalesce(topic, topic_id) AS topic, partition,
    error_code, crc_valid, base_offset, false AS is_harmless, seen_at, at_us, b.connection_id, exchange
FROM client_batches AS b
JOIN client_connections AS c ON c.connection_id = b.connection_id
WHERE direction = 'produce' AND acks = 0 AND crc_valid = false AND c.closed_by = 'broker'
    AND c.last_seen_us <= at_us + 1000000 -- a broker ends the connection at it
