/*
meaning: >-
  Partitions that began anew, with offsets from 0 or at least lower ones: the topic was deleted and created again, or the log was cut
  off. A row for each beginning, with the time until the next one (until_micros; the last has no end), and life, which counts them from 1.
  Observations before since_micros no longer apply to the partition. Evidence is a DeleteTopics without an error, another topic id, or
  offsets that go back: a batch is appended below an end that was known before it was sent, or the high watermark of a connection drops.
stored: true
*/
WITH positions AS (
  SELECT k.cluster, o.topic, o.topic_id, o.partition, min(epoch_us(o.seen_at)) AS micros
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE o.seen_at IS NOT NULL AND coalesce(o.error_code, 0) = 0
  GROUP BY k.cluster, o.topic, o.topic_id, o.partition
  UNION ALL
  SELECT k.cluster, b.topic, b.topic_id, b.partition, min(epoch_us(b.seen_at))
  FROM record_batches b JOIN connection_clusters k ON k.connection_id = b.connection_id
  WHERE b.seen_at IS NOT NULL AND coalesce(b.error_code, 0) = 0
  GROUP BY k.cluster, b.topic, b.topic_id, b.partition
), ids AS (
  SELECT cluster, topic, topic_id, min(micros) AS micros,
    row_number() OVER (PARTITION BY cluster, topic ORDER BY min(micros), topic_id) AS place
  FROM positions WHERE topic IS NOT NULL AND topic_id IS NOT NULL
  GROUP BY cluster, topic, topic_id
), topic_starts AS (
  SELECT cluster, topic, micros FROM ids WHERE place > 1
  UNION
  SELECT k.cluster, d.topic, epoch_us(d.response_at)
  FROM (
    SELECT connection_id, response_at, topic FROM exchanges CROSS JOIN unnest(topics) AS deleted(topic)
    WHERE api_key = 20 AND response_at IS NOT NULL AND len(error_codes) = 0
  ) d JOIN connection_clusters k ON k.connection_id = d.connection_id
), appends AS (
  SELECT k.cluster, coalesce(b.topic, b.topic_id) AS topic, b.partition, epoch_us(e.request_at) AS asked_micros,
    epoch_us(e.response_at) AS micros, b.appended_offset AS partition_offset
  FROM record_batches b
  JOIN exchanges e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
  JOIN connection_clusters k ON k.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.appended_offset >= 0 AND coalesce(b.error_code, 0) = 0
    AND e.request_at IS NOT NULL AND e.response_at IS NOT NULL
), watermarks AS (
  SELECT k.cluster, coalesce(o.topic, o.topic_id) AS topic, o.partition, o.connection_id, epoch_us(o.seen_at) // 1000000 AS second,
    max(o.high_watermark) AS highest, min({'partition_offset': o.high_watermark, 'micros': epoch_us(o.seen_at)}) AS lowest
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE o.kind = 'fetch' AND o.high_watermark >= 0 AND o.seen_at IS NOT NULL AND coalesce(o.error_code, 0) = 0
  GROUP BY k.cluster, coalesce(o.topic, o.topic_id), o.partition, o.connection_id, epoch_us(o.seen_at) // 1000000
), seconds AS (
  -- for each second the end offset known at its end (is_known = 1), and the requested offsets; connection '' stands for all
  SELECT cluster, topic, partition, '' AS connection_id, second, 1 AS is_known, max(end_offset) AS partition_offset,
    CAST(NULL AS BIGINT) AS micros
  FROM (
    SELECT cluster, topic, partition, micros // 1000000 AS second, partition_offset + 1 AS end_offset
    FROM appends WHERE partition_offset < 9223372036854775807
    UNION ALL
    SELECT cluster, topic, partition, second, highest FROM watermarks
  ) ends
  GROUP BY cluster, topic, partition, second
  UNION ALL
  SELECT cluster, topic, partition, '' AS connection_id, second, 0, lowest.partition_offset, lowest.micros
  FROM (
    SELECT cluster, topic, partition, asked_micros // 1000000 AS second, min({'partition_offset': partition_offset, 'micros': micros}) AS lowest
    FROM appends GROUP BY cluster, topic, partition, asked_micros // 1000000
  ) a
  UNION ALL
  SELECT cluster, topic, partition, connection_id, second, 1, highest, CAST(NULL AS BIGINT) FROM watermarks
  UNION ALL
  SELECT cluster, topic, partition, connection_id, second, 0, lowest.partition_offset, lowest.micros FROM watermarks
), compared AS (
  SELECT *, last_value(CASE WHEN is_known = 1 THEN partition_offset END IGNORE NULLS) OVER (
    PARTITION BY cluster, topic, partition, connection_id ORDER BY second, is_known ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  ) AS known
  FROM seconds
), starts AS (
  SELECT cluster, topic, partition, micros FROM compared WHERE is_known = 0 AND partition_offset < known
  UNION
  SELECT p.cluster, p.topic, p.partition, s.micros
  FROM (SELECT DISTINCT cluster, coalesce(topic, topic_id) AS topic, partition FROM positions) p
  JOIN topic_starts s ON s.cluster = p.cluster AND s.topic = p.topic
)
SELECT cluster, topic, partition, micros AS since_micros,
  lead(micros) OVER (PARTITION BY cluster, topic, partition ORDER BY micros) AS until_micros,
  row_number() OVER (PARTITION BY cluster, topic, partition ORDER BY micros) AS life
FROM starts
