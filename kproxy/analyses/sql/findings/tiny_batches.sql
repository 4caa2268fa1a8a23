/*
id: tiny_batches
title: Producers that send almost every record in a batch of its own
severity: notice
meaning: >
  Each request carries one or two small records, at a rate at which many would fit together. Brokers then work per request
  instead of per megabyte, compression has nothing to work with, and logs and indexes grow by the overhead of each batch.
basis:
  rests_on: records in each batch, and the pauses between batches
  certainty: measured
  wrong_if: records have to leave at once, one by one
columns:
  batches: ""
  records: ""
  records_per_batch: average number of records in a batch
  bytes_per_batch: average size of a batch, in bytes
  batches_in_busiest_minute: record batches in the minute with the most
action: >
  Let the producer wait a little (linger.ms=5 to 50, the default since Kafka 4.0 is 5), do not flush() or wait for each send()
  before the next.
reference: https://kafka.apache.org/documentation/#producerconfigs_linger.ms
parameters:
  min_batches_per_minute: {default: 1000, meaning: "Fewer batches of a client to a topic, in its busiest minute, are not listed: there was nothing to wait for."}
  max_records_per_batch: {default: 2, most: 2147483647, meaning: "Records per batch, on average, up to which batches are tiny."}
  max_batch_bytes: {default: 4096, most: 2147483647, meaning: "Bytes per batch, on average, up to which batches are tiny."}
verdict: "{count client_id:producer sends/producers send} nearly every record in a batch of its own. {most batches}: {client_id} to {topic}, {batches:,} batches of {records_per_batch:.1f} records. Raise linger.ms, or send several records at once, and do not flush after each."
order: 50
only_if: FROM record_batches WHERE direction = 'produce' HAVING count(*) >= $min_batches_per_minute
frame:
  group_by: [client_id, client_address, cluster, topic]
  values:
    bytes: CAST(sum(bytes) AS BIGINT)
    batches_in_busiest_minute: CAST(max(batches) AS BIGINT)
  derived:
    records_per_batch: round(records / batches, 1)
    bytes_per_batch: bytes // batches
  having: batches_in_busiest_minute >= $min_batches_per_minute AND records <= batches * $max_records_per_batch AND bytes <= batches * $max_batch_bytes
  order_by: batches DESC
  is_summed: true
*/
SELECT client_id, client_address, cluster, topic, minute,
    max(software) AS software,
    sum(batches) AS batches,
    sum(records) AS records,
    sum(bytes) AS bytes,
    min(first_at) AS first_at, max(last_at) AS last_at,
    min(example) AS example
FROM produced_minutes
WHERE is_counted AND is_taken -- what was refused or not answered is sent again, as it was
GROUP BY client_id, client_address, cluster, topic, minute
