/*
id: topics
title: What is in the topics and how it is written
severity: info
meaning: >-
  Records, bytes and rates of each topic, how records are batched and compressed, and how evenly they are spread over partitions.
columns:
  topic: ""
  direction: produce, fetch (by clients), replicate (by brokers)
  records: number of records, also of those that were refused, each time they were sent
  bytes: bytes of the record batches on the wire
  records_per_second: records per second of the time for which its cluster was captured
  records_per_batch: average number of records in a batch
  bytes_per_batch: average size of a batch, in bytes
  codecs: number of batches of each codec
  skew: "share of the busiest partition, times the number of partitions seen: 1 is even"
  partitions: number of partitions seen
  compression_ratio: bytes of a record in compressed batches against uncompressed ones of the same topic and direction, where both were seen
  median_gap_ms: median time between two batches of a partition, in milliseconds
  format_old: batches of message format 0 or 1
  refused_records: produced records that the broker refused
  cluster: its id, else the first address of its brokers
  clients: number of clients
  batches: ""
  bytes_per_second: bytes per second of the time for which its cluster was captured
  least_batch_bytes: size of the smallest batch
  median_batch_bytes: median size of a batch
  most_batch_bytes: size of the largest batch
  bytes_per_record: average, including the overhead of batches
  compressed_share: share of bytes in compressed batches
  busiest_partition: partition with most records
  transactional_batches: batches of transactions
  first_micros: ""
  last_micros: ""
action: Small batches of busy topics cost the broker most; raise linger.ms, compress, choose another key where skew is high.
parameters: {}
sampled: Other reads and writes may be among the exchanges that are missing.
verdict: "{count topic:topic/topics} with records; busiest: {topic}, {records:,} records, {bytes:bytes} ({direction}), {records_per_batch:.1f} records a batch[; {refused_records:record/records} refused]"
order: 45
*/
WITH batches AS (
  SELECT n.cluster,
    coalesce(b.topic, b.topic_id) AS topic,
    CASE WHEN b.direction = 'produce' THEN 'produce' WHEN c.role = 'broker' THEN 'replicate' ELSE 'fetch' END AS direction,
    b.partition,
    coalesce(b.count, 0) AS records,
    b.size,
    coalesce(b.codec, 'unknown') AS codec,
    b.magic, c.client, b.is_transactional, b.error_code,
    epoch_us(b.seen_at) - lag(epoch_us(b.seen_at)) OVER (
      PARTITION BY n.cluster, coalesce(b.topic, b.topic_id), b.direction, c.role, b.partition
      ORDER BY epoch_us(b.seen_at), b.connection_id, b.exchange
    ) AS gap_micros,
    epoch_us(b.seen_at) AS micros
  FROM record_batches b
  JOIN clients c ON c.connection_id = b.connection_id
  JOIN connection_clusters n ON n.connection_id = b.connection_id
  WHERE NOT coalesce(b.is_control, false) AND b.magic IS NOT NULL
), partitions AS (
  SELECT cluster, topic, direction,
    count(*) AS partitions,
    max(records) AS most_records,
    max_by(partition, {'records': records, 'order': -CAST(partition AS BIGINT)}) AS busiest_partition
  FROM (SELECT cluster, topic, direction, partition, sum(records) AS records FROM batches GROUP BY cluster, topic, direction, partition) p
  GROUP BY cluster, topic, direction
), codecs AS (
  SELECT cluster, topic, direction,
    coalesce(list_sort(list(codec || ' ' || CAST(batches AS VARCHAR)) FILTER (codec IS NOT NULL)), []) AS codecs
  FROM (SELECT cluster, topic, direction, codec, count(*) AS batches FROM batches GROUP BY cluster, topic, direction, codec) k
  GROUP BY cluster, topic, direction
)
SELECT b.topic, b.direction,
  count(DISTINCT b.client) AS clients,
  p.partitions,
  sum(b.records) AS records,
  sum(CASE WHEN b.direction = 'produce' AND b.error_code <> 0 THEN b.records ELSE 0 END) AS refused_records,
  sum(b.size) AS bytes,
  count(*) AS batches,
  round(sum(b.records) * 1e6 / nullif(s.micros, 0), 3) AS records_per_second,
  round(sum(b.size) * 1e6 / nullif(s.micros, 0), 3) AS bytes_per_second,
  round(sum(b.records) / count(*), 3) AS records_per_batch,
  round(sum(b.size) / count(*), 3) AS bytes_per_batch,
  CAST(min(b.size) AS BIGINT) AS least_batch_bytes,
  round(quantile_cont(b.size, 0.5), 3) AS median_batch_bytes,
  CAST(max(b.size) AS BIGINT) AS most_batch_bytes,
  round(sum(b.size) / nullif(sum(b.records), 0), 3) AS bytes_per_record,
  k.codecs,
  round(sum(CASE WHEN b.codec NOT IN ('none', 'unknown') THEN b.size ELSE 0 END) / sum(b.size), 3) AS compressed_share,
  round(
    (sum(CASE WHEN b.codec = 'none' THEN b.size END) / nullif(sum(CASE WHEN b.codec = 'none' THEN b.records END), 0))
    / nullif(sum(CASE WHEN b.codec NOT IN ('none', 'unknown') THEN b.size END)
      / nullif(sum(CASE WHEN b.codec NOT IN ('none', 'unknown') THEN b.records END), 0), 0), 3) AS compression_ratio,
  round(p.most_records * p.partitions / nullif(sum(b.records), 0), 3) AS skew,
  p.busiest_partition,
  round(quantile_cont(b.gap_micros, 0.5) / 1000, 3) AS median_gap_ms,
  sum(CASE WHEN b.is_transactional THEN 1 ELSE 0 END) AS transactional_batches,
  sum(CASE WHEN b.magic < 2 THEN 1 ELSE 0 END) AS format_old,
  min(b.micros) AS first_micros, max(b.micros) AS last_micros,
  b.cluster
FROM batches b
LEFT JOIN cluster_times s ON s.cluster = b.cluster
JOIN partitions p ON p.cluster = b.cluster AND p.topic = b.topic AND p.direction = b.direction
JOIN codecs k ON k.cluster = b.cluster AND k.topic = b.topic AND k.direction = b.direction
GROUP BY b.cluster, b.topic, b.direction, p.partitions, p.most_records, p.busiest_partition, k.codecs, s.micros
ORDER BY bytes DESC, b.topic, b.direction, b.cluster
