/*
id: lag
title: How far groups are behind, as seen here
severity: info
meaning: >-
  How far the committed offset of each group is behind the end of each partition, from the traffic alone. The end is the highest offset that
  was seen until then, so the true lag may be higher, never lower. A topic that was deleted and created again begins anew, without the commits of before.
columns:
  group_id: ""
  topic: ""
  partition: ""
  at_ms: the last moment in each bucket_ms
  lag: end_offset - committed_offset; 0 where the commit is ahead of every end that was seen
  committed_offset: from a commit, or from an answer to OffsetFetch
  end_offset: from Fetch and Produce responses and ListOffsets
  since_commit_ms: milliseconds since the last commit
  is_last: the last row of the partition
  cluster: its id, else the first address of its brokers
  seen: "as seen here; no end seen: lag is then empty"
action: Where lag grows, add consumers (up to the number of partitions) or look at what they do for each record.
parameters:
  bucket_ms: {default: 1000, meaning: Length of the times of which the last moment is kept.}
needs: [offsets, record_batches, exchanges, connection_clusters, partition_lives]
verdict: "{count group_id:group/groups}; [{lag:record/records} behind at most as seen here: {group_id} on {topic}-{partition}|[{rows where lag=0:?}none is behind, as seen here|the ends of the partitions were not seen]]"
otherwise: ""
order: 20
*/
WITH all_ends AS (
  SELECT
    k.cluster,
    coalesce(topic, topic_id) AS topic,
    partition,
    unix_micros(at) AS micros,
    CASE WHEN kind = 'fetch' THEN high_watermark ELSE offset END AS end_offset
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE at IS NOT NULL AND coalesce(error_code, 0) = 0
    AND ((kind = 'fetch' AND high_watermark >= 0) OR (kind = 'list' AND asked_timestamp_ms = -1 AND offset >= 0))
  UNION ALL
  SELECT
    k.cluster,
    coalesce(b.topic, b.topic_id),
    b.partition,
    unix_micros(coalesce(e.response_at, b.at)),
    b.appended_offset + b.count
  FROM record_batches b
  JOIN exchanges e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
  JOIN connection_clusters k ON k.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.appended_offset BETWEEN 0 AND 4611686018427387903 AND b.count BETWEEN 0 AND 4611686018427387903 AND coalesce(b.error_code, 0) = 0
),
ends AS (
  SELECT e.*, coalesce(l.life, 0) AS life
  FROM all_ends e
  LEFT JOIN partition_lives l ON l.cluster = e.cluster AND l.topic = e.topic AND l.partition = e.partition
    AND e.micros >= l.since_micros AND (l.until_micros IS NULL OR e.micros < l.until_micros)
),
all_positions AS (
  SELECT
    k.cluster,
    group_id,
    coalesce(topic, topic_id) AS topic,
    partition,
    unix_micros(at) AS micros,
    offset,
    kind
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE kind IN ('commit', 'committed') AND group_id IS NOT NULL AND offset >= 0 AND at IS NOT NULL AND coalesce(error_code, 0) = 0
),
positions AS (
  SELECT p.*, coalesce(l.life, 0) AS life
  FROM all_positions p
  LEFT JOIN partition_lives l ON l.cluster = p.cluster AND l.topic = p.topic AND l.partition = p.partition
    AND p.micros >= l.since_micros AND (l.until_micros IS NULL OR p.micros < l.until_micros)
),
moments AS (  -- what is known of a partition, in the order of time; of one moment ends first, of each time to be kept one end
  SELECT cluster, CAST(NULL AS STRING) AS group_id, topic, partition, life, max(micros) AS micros, 0 AS kind_order, max(end_offset) AS end_offset,
    CAST(NULL AS BIGINT) AS offset
  FROM ends
  GROUP BY cluster, topic, partition, life, micros DIV (greatest(:bucket_ms, 1) * CAST(1000 AS BIGINT))
  UNION ALL
  SELECT cluster, group_id, topic, partition, life, micros, 1, CAST(NULL AS BIGINT), offset FROM positions
),
followed AS (  -- every group that the partition has, at every moment of the partition
  SELECT
    m.cluster,
    g.group_id,
    m.topic,
    m.partition,
    m.life,
    m.micros,
    m.kind_order,
    m.end_offset,
    CASE WHEN m.group_id = g.group_id THEN m.offset END AS offset
  FROM moments m
  JOIN (SELECT DISTINCT cluster, group_id, topic, partition, life FROM positions) g
    ON g.cluster = m.cluster AND g.topic = m.topic AND g.partition = m.partition AND g.life = m.life
  WHERE m.group_id IS NULL OR m.group_id = g.group_id
),
running AS (
  SELECT
    f.*,
    max(end_offset) OVER (PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order, end_offset, offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS seen_end,
    max(CASE WHEN offset IS NOT NULL THEN micros END) OVER (
      PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order, end_offset, offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS committed_micros,
    count(offset) OVER (PARTITION BY cluster, group_id, topic, partition, life ORDER BY micros, kind_order, end_offset, offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS commits
  FROM followed f
),
held AS (
  SELECT
    r.*,
    max(offset) OVER (PARTITION BY cluster, group_id, topic, partition, life, commits) AS committed,
    row_number() OVER (
      PARTITION BY cluster, group_id, topic, partition, life, micros DIV (greatest(:bucket_ms, 1) * CAST(1000 AS BIGINT))
      ORDER BY micros DESC, kind_order DESC, end_offset DESC, offset DESC) AS from_end,
    row_number() OVER (
      PARTITION BY cluster, group_id, topic, partition ORDER BY life DESC, micros DESC, kind_order DESC, end_offset DESC, offset DESC) AS from_last
  FROM running r
),
last_lags AS (
  SELECT
    h.*,
    CASE WHEN seen_end IS NOT NULL THEN greatest(seen_end - committed, 0) END AS lag,
    max(CASE WHEN from_last = 1 AND seen_end IS NOT NULL THEN greatest(seen_end - committed, 0) END) OVER (PARTITION BY cluster, group_id, topic, partition) AS last_lag
  FROM held h
  WHERE from_end = 1 AND commits > 0
)
SELECT
  group_id,
  topic,
  partition,
  micros DIV 1000 AS at_ms,
  committed AS committed_offset,
  seen_end AS end_offset,
  lag,
  CASE WHEN seen_end IS NULL THEN 'no end seen' ELSE 'as seen here' END AS seen,
  (micros - committed_micros) DIV 1000 AS since_commit_ms,
  from_last = 1 AS is_last,
  cluster
FROM last_lags
ORDER BY is_last DESC, last_lag DESC, group_id, topic, partition, cluster, at_ms DESC
