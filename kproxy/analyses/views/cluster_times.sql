/*
meaning: >-
  For how many microseconds the traffic of each cluster was captured, for rates: the time from the first to the last frame of each
  capture that shows it. Overlapping times count once, gaps between captures do not count.
stored: true
*/
WITH shown AS (
  SELECT DISTINCT k.cluster, t.since_us, t.until_us
  FROM connection_clusters k JOIN capture_times t ON t.connection_id = k.connection_id
), ordered AS (
  SELECT *, max(until_us) OVER (
    PARTITION BY cluster ORDER BY since_us, until_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_us
  FROM shown
)
SELECT cluster, CAST(sum(greatest(until_us - greatest(since_us, coalesce(covered_us, since_us)), 0)) AS BIGINT) AS micros
FROM ordered
GROUP BY cluster
