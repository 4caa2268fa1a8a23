/*
id: lag
title: How far groups are behind, as seen here
severity: info
meaning: >-
  How far the committed offset of each group is behind the end of each partition, from the traffic alone. The end is the highest offset that
  was seen until then, so the true lag may be higher, never lower, unless
  records were lost (lost_records). A topic that was deleted and created again begins anew, without earlier
  commits. Offsets that a transaction commits count from its EndTxn on, unless that aborts it; if the coordinator was not captured, at once.
columns:
  group_id: ""
  topic: ""
  partition: ""
  at_ms: the last moment in each bucket_ms
  lag: end_offset - committed_offset, in which markers of transactions count as well; 0 if the commit is ahead of the highest end that was seen
  committed_offset: from a commit, or from an answer to OffsetFetch
  end_offset: from Fetch and Produce responses and ListOffsets
  since_commit_ms: milliseconds since the last commit; empty if only an answer to OffsetFetch was seen
  is_last: whether it is the last row of the partition
  cluster: its id, else the first address of its brokers
  seen: "as seen here; no end seen: lag is then empty"
action: If lag grows, add consumers (up to the number of partitions) or look at what they do for each record.
parameters:
  bucket_ms: {default: 0, meaning: "One row is kept for each period of this length, the last; 0: a second, or longer for at most about 20,000 rows."}
sampled: Later commits, and later ends of partitions, may be among the exchanges that are missing.
verdict: "{count group_id:group/groups}; [{lag:?}farthest behind: {group_id} on {topic}-{partition}, by at least {lag:offset/offsets}|[{rows where lag=0:?}none is behind, as seen here|the ends of the partitions were not seen]]"
otherwise: ""
order: 20
*/
WITH all_ends AS (
  SELECT k.cluster,
    coalesce(topic, topic_id) AS topic,
    partition,
    epoch_us(seen_at) AS micros,
    CASE WHEN kind = 'fetch' THEN high_watermark ELSE partition_offset END AS end_offset
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE seen_at IS NOT NULL AND coalesce(error_code, 0) = 0
    AND ((kind = 'fetch' AND high_watermark >= 0) OR (kind = 'list' AND asked_timestamp_ms = -1 AND partition_offset >= 0))
  UNION ALL
  SELECT k.cluster,
    coalesce(b.topic, b.topic_id),
    b.partition,
    epoch_us(coalesce(e.response_at, b.seen_at)),
    b.appended_offset + b.count
  FROM record_batches b
  JOIN exchanges e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
  JOIN connection_clusters k ON k.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.appended_offset BETWEEN 0 AND 4611686018427387903 AND b.count BETWEEN 0 AND 4611686018427387903 AND coalesce(b.error_code, 0) = 0
), ends AS (
  SELECT e.*, coalesce(l.life, 0) AS life
  FROM all_ends e
  LEFT JOIN partition_lives l ON l.cluster = e.cluster AND l.topic = e.topic AND l.partition = e.partition
    AND e.micros >= l.since_micros AND (l.until_micros IS NULL OR e.micros < l.until_micros)
), all_positions AS (
  SELECT k.cluster, o.group_id,
    coalesce(o.topic, o.topic_id) AS topic,
    o.partition,
    epoch_us(o.seen_at) AS micros,
    o.partition_offset, o.kind, t.producer_id
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  LEFT JOIN (SELECT connection_id, exchange, producer_id FROM exchanges WHERE api_key = 28 AND producer_id >= 0) t
    ON t.connection_id = o.connection_id AND t.exchange = o.exchange
  WHERE o.kind IN ('commit', 'committed') AND o.group_id IS NOT NULL AND o.partition_offset >= 0 AND o.seen_at IS NOT NULL AND coalesce(o.error_code, 0) = 0
), in_transactions AS (  -- offsets that transactions commit, each with the first end after it
  SELECT *,
    last_value(ending IGNORE NULLS) OVER (
      PARTITION BY cluster, producer_id ORDER BY micros DESC, ending DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS outcome,
    last_value(known_micros IGNORE NULLS) OVER (
      PARTITION BY cluster, producer_id ORDER BY micros DESC, ending DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS end_micros
  FROM (
    SELECT cluster, group_id, topic, partition, micros, partition_offset, kind, producer_id, CAST(NULL AS VARCHAR) AS ending,
      CAST(NULL AS BIGINT) AS known_micros
    FROM all_positions WHERE producer_id IS NOT NULL
    UNION ALL
    SELECT t.cluster, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS INT), t.at_us, CAST(NULL AS BIGINT), CAST(NULL AS VARCHAR), t.producer_id,
      t.outcome, t.known_us
    FROM transaction_ends t JOIN (SELECT DISTINCT cluster, producer_id FROM all_positions WHERE producer_id IS NOT NULL) p
      ON p.cluster = t.cluster AND p.producer_id = t.producer_id
  ) marks
), watched AS (  -- until when the capture would show the end of a transaction; no row if its coordinator was not captured
  SELECT p.cluster, p.producer_id, p.micros, max(c.until_us) AS until_us
  FROM (SELECT DISTINCT cluster, producer_id, micros FROM all_positions WHERE producer_id IS NOT NULL) p
  JOIN coordinator_captures c
    ON c.cluster = p.cluster AND c.producer_id = p.producer_id AND c.since_us <= p.micros AND c.until_us >= p.micros
  GROUP BY p.cluster, p.producer_id, p.micros
), known_positions AS (
  SELECT cluster, group_id, topic, partition, micros, partition_offset, kind FROM all_positions WHERE producer_id IS NULL
  UNION ALL
  SELECT t.cluster, t.group_id, t.topic, t.partition,
    CASE WHEN w.until_us IS NULL THEN t.micros ELSE greatest(t.micros, t.end_micros) END, t.partition_offset, t.kind
  FROM in_transactions t
  LEFT JOIN watched w ON w.cluster = t.cluster AND w.producer_id = t.producer_id AND w.micros = t.micros
  WHERE t.ending IS NULL AND (w.until_us IS NULL OR (t.outcome = 'committed' AND t.end_micros <= w.until_us))
), positions AS (
  SELECT p.*, coalesce(l.life, 0) AS life
  FROM known_positions p
  LEFT JOIN partition_lives l ON l.cluster = p.cluster AND l.topic = p.topic AND l.partition = p.partition
    AND p.micros >= l.since_micros AND (l.until_micros IS NULL OR p.micros < l.until_micros)
), followed AS (  -- the partitions of each group
  SELECT cluster, group_id, topic, partition, life, min(micros) AS since_micros, max(micros) AS until_micros
  FROM positions
  GROUP BY cluster, group_id, topic, partition, life
), bucket AS (  -- length of a bucket: as given, or such that there are about 20,000 rows and the last one of each partition
  SELECT 1000 * CASE
    WHEN $bucket_ms > 0 THEN $bucket_ms
    ELSE least(greatest(1000, ((max(e.until_micros) - min(e.since_micros)) // 20000000 + 1) * max(f.pairs)), CAST(1000000000000 AS BIGINT))
    END AS micros
  FROM (
    SELECT min(micros) AS since_micros, max(micros) AS until_micros FROM ends
    UNION ALL
    SELECT min(since_micros), max(until_micros) FROM followed
  ) e CROSS JOIN (SELECT count(*) AS pairs FROM followed) f
), moments AS (  -- at the end of each bucket: the highest known end of a partition, and the last position of each group
  SELECT f.cluster, f.group_id, f.topic, f.partition, f.life, e.bucket, e.micros, 0 AS kind_order, e.end_offset,
    CAST(NULL AS BIGINT) AS partition_offset, CAST(NULL AS BIGINT) AS committed_micros
  FROM (
    SELECT cluster, topic, partition, life, n.micros // b.micros AS bucket, max(n.micros) AS micros, max(end_offset) AS end_offset
    FROM ends n CROSS JOIN bucket b
    GROUP BY cluster, topic, partition, life, n.micros // b.micros
  ) e
  JOIN followed f ON f.cluster = e.cluster AND f.topic = e.topic AND f.partition = e.partition AND f.life = e.life
  UNION ALL
  SELECT cluster, group_id, topic, partition, life, p.micros // b.micros, max(p.micros), 1, CAST(NULL AS BIGINT),
    max_by(partition_offset, {'micros': p.micros, 'partition_offset': partition_offset}), max(CASE WHEN kind = 'commit' THEN p.micros END)
  FROM positions p CROSS JOIN bucket b
  GROUP BY cluster, group_id, topic, partition, life, p.micros // b.micros
), running AS (
  SELECT m.*,
    max(end_offset) OVER (PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS seen_end,
    max(committed_micros) OVER (PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS commit_micros,
    count(partition_offset) OVER (PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS commits
  FROM moments m
), held AS (
  SELECT r.*,
    max(partition_offset) OVER (PARTITION BY cluster, group_id, topic, partition, life, commits) AS committed,
    row_number() OVER (PARTITION BY cluster, group_id, topic, partition, life, bucket ORDER BY micros DESC, kind_order DESC) AS from_end,
    row_number() OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY life DESC, micros DESC, kind_order DESC) AS from_last
  FROM running r
), last_lags AS (
  SELECT h.*,
    CASE WHEN seen_end IS NOT NULL THEN greatest(seen_end - committed, 0) END AS lag,
    max(CASE WHEN from_last = 1 AND seen_end IS NOT NULL THEN greatest(seen_end - committed, 0) END) OVER (PARTITION BY cluster, group_id, topic, partition) AS last_lag
  FROM held h
  WHERE from_end = 1 AND commits > 0
)
SELECT group_id, topic, partition,
  micros // 1000 AS at_ms,
  committed AS committed_offset, seen_end AS end_offset, lag,
  CASE WHEN seen_end IS NULL THEN 'no end seen' ELSE 'as seen here' END AS seen,
  (micros - commit_micros) // 1000 AS since_commit_ms,
  from_last = 1 AS is_last,
  cluster
FROM last_lags
ORDER BY is_last DESC, last_lag DESC, group_id, topic, partition, cluster, at_ms DESC
