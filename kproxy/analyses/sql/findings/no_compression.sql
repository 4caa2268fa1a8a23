/*
id: no_compression
title: Producers that send much without compression
severity: info
meaning: >
  Text and JSON usually shrink to a third or less. Without compression they cost that much more network, disk, replication and
  page cache, on every broker and for every consumer. Records that are compressed already (images, encrypted values) gain nothing.
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  batches: without compression
  records: in those batches
  bytes: of those batches, as on the wire
  bytes_per_batch: average
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set compression.type=zstd or lz4 on the producer, unless the values are compressed or encrypted already.
reference: https://kafka.apache.org/documentation/#producerconfigs_compression.type
parameters:
  min_bytes: {default: 5000000, meaning: "Bytes sent without compression below which a client and topic are not listed."}
  min_batch_bytes: {default: 1000, most: 2147483647, meaning: "Bytes per batch, on average, below which compression would gain little."}
needs: [produced_minutes]
verdict: "{count client_id:producer sends/producers send} much without compression. Most: {client_id} to {topic}, {bytes:bytes}. Set compression.type=zstd or lz4, unless the values are compressed or encrypted already."
order: 50
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        topic,
        max(software) AS software,
        CAST(sum(batches) AS BIGINT) AS batches,
        CAST(sum(records) AS BIGINT) AS records,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM produced_minutes
    WHERE codec = 'none'
    GROUP BY client_id, client_address, cluster, topic
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    batches,
    records,
    bytes,
    bytes DIV batches AS bytes_per_batch,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE bytes >= :min_bytes AND bytes >= batches * :min_batch_bytes
ORDER BY bytes DESC, client_id, client_address, topic, cluster
