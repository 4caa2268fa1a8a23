/*
id: corrupt_batches
title: Record batches whose checksum is wrong
severity: critical
meaning: >
  The checksum of a record batch does not match its bytes, or the broker said so (CORRUPT_MESSAGE). In a Produce request: the client or
  the network damaged it. In a Fetch response: the broker's disk did, and consumers cannot get past it.
columns:
  broker: ""
  topic: ""
  partition: ""
  direction: produced or fetched
  batches: batches with a wrong checksum, or refused as corrupt
  refused: batches that the broker refused
  base_offset: lowest base offset of these batches; for produced ones as the producer wrote it
action: >
  Produced: update the client, check that host's memory and network. Fetched: check the broker's disk; let the leader move to a replica
  whose copy is good.
reference: https://kafka.apache.org/documentation/#messageformat
parameters:
  min_batches: {default: 1, meaning: "Fewer such batches in a partition are not listed."}
verdict: "{rows:partition/partitions} with damaged record batches. Most: {topic}-{partition}, {batches:,} {direction} by {client_id} at {client_address} via {broker}. If produced, check that client's host; if fetched, that broker's disk."
order: 10
frame:
  group_by: [client_id, client_address, cluster, broker, direction, "coalesce(topic, topic_id) AS topic", partition]
  values: {batches: count(*), refused: count(CASE WHEN error_code = 2 THEN 1 END), base_offset: min(base_offset)}
  derived:
    direction: CASE WHEN direction = 'produce' THEN 'produced' ELSE 'fetched' END
  having: batches >= :min_batches
  order_by: batches DESC
*/
SELECT *
FROM client_batches
WHERE crc_valid = false OR (direction = 'produce' AND error_code = 2)
