/*
meaning: >-
  How many records a client was behind the end of the partition that it was furthest behind in, in sixty parts of the time, as its
  fetches show it. A Fetch of a session leaves out an offset that did not change: it is the one before.
*/
WITH fetches AS (
  SELECT k.cluster,
    coalesce(client_id, '') AS client,
    coalesce(topic, topic_id) AS topic,
    epoch_us(seen_at) AS micros,
    high_watermark,
    last_value(partition_offset IGNORE NULLS) OVER (
      PARTITION BY o.connection_id, coalesce(topic, topic_id), partition ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS position
  FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE kind = 'fetch' AND seen_at IS NOT NULL AND coalesce(replica_id, -1) < 0
), span AS (
  SELECT min(micros) AS begins, max(micros) + 1 AS ends FROM fetches
), parts AS (
  SELECT f.cluster, f.client, f.topic, (f.micros - s.begins) * 60 // (s.ends - s.begins) AS part, greatest(f.high_watermark - f.position, 0) AS lag
  FROM fetches f CROSS JOIN span s
  WHERE f.high_watermark >= 0 AND f.position >= 0
)
SELECT p.cluster, p.client, p.topic, (s.begins + p.part * (s.ends - s.begins) // 60) // 1000 AS at_ms, max(p.lag) AS lag
FROM parts p CROSS JOIN span s
WHERE p.topic IS NOT NULL
GROUP BY p.cluster, p.client, p.topic, p.part, s.begins, s.ends
ORDER BY p.cluster, p.client, p.topic, at_ms
