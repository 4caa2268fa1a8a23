/*
id: no_compression
title: Producers that send much without compression
severity: info
meaning: >
  Text and JSON usually shrink to a third or less. Without compression they cost that much more network, disk, replication and
  page cache, on every broker and for every consumer. Records that are compressed already (images, encrypted values) gain nothing.
basis:
  rests_on: the compression in the headers of batches
  certainty: said
  wrong_if: the values are compressed or encrypted already
columns:
  batches: record batches without compression
  records: records in these batches
  bytes: bytes of these batches on the wire
  bytes_per_batch: average size of a batch, in bytes
action: Set compression.type=zstd or lz4 on the producer, unless the values are compressed or encrypted already.
reference: https://kafka.apache.org/documentation/#producerconfigs_compression.type
parameters:
  min_bytes: {default: 5000000, meaning: "Bytes sent without compression below which a client and topic are not listed."}
  min_batch_bytes: {default: 1000, most: 2147483647, meaning: "Bytes per batch, on average, below which compression would gain little."}
verdict: "{count client_id:producer sends/producers send} much without compression. {most bytes}: {client_id} to {topic}, {bytes:bytes}. Set compression.type=zstd or lz4, unless the values are compressed or encrypted already."
order: 50
only_if: FROM record_batches WHERE direction = 'produce' AND codec = 'none' HAVING sum(size) >= $min_bytes
frame:
  group_by: [client_id, client_address, cluster, topic]
  derived: {bytes_per_batch: bytes // batches}
  having: bytes >= $min_bytes AND bytes >= batches * $min_batch_bytes
  order_by: bytes DESC
  is_summed: true
*/
SELECT *
FROM produced_minutes
WHERE codec = 'none'
