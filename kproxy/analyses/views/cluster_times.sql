/*
meaning: >-
  For how many microseconds the traffic of each cluster was captured: from the first to the last frame of each capture that shows it,
  time that several captures have once, and time between captures not at all. What rates are over.
stored: true
*/
WITH captures AS (
  SELECT capture, min(unix_micros(first_seen_at)) AS since_us, max(unix_micros(last_seen_at)) AS until_us
  FROM connections
  GROUP BY capture
), shown AS (
  SELECT DISTINCT k.cluster, t.since_us, t.until_us
  FROM connections c JOIN connection_clusters k ON k.connection_id = c.connection_id JOIN captures t ON t.capture = c.capture
  WHERE t.since_us IS NOT NULL
), ordered AS (
  SELECT *, max(until_us) OVER (
    PARTITION BY cluster ORDER BY since_us, until_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_us
  FROM shown
)
SELECT cluster, CAST(sum(greatest(until_us - greatest(since_us, coalesce(covered_us, since_us)), 0)) AS BIGINT) AS micros
FROM ordered
GROUP BY cluster
