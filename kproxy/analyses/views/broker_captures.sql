/*
meaning: >-
  From when to when (since_us, until_us) the traffic of each broker was captured without a break: for each capture that shows the
  broker, from its first to its last frame. Captures that follow each other within a minute, as rotated files do, count as one.
stored: true
*/
WITH shown AS (
  SELECT DISTINCT c.cluster, c.broker, t.since_us, t.until_us
  FROM client_connections c JOIN capture_times t ON t.connection_id = c.connection_id
), marked AS (
  SELECT *, CASE WHEN since_us > 60000000 + max(until_us) OVER (
    PARTITION BY cluster, broker ORDER BY since_us, until_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 1 ELSE 0 END AS begins
  FROM shown
), numbered AS (
  SELECT *, sum(begins) OVER (
    PARTITION BY cluster, broker ORDER BY since_us, until_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS stretch
  FROM marked
)
SELECT cluster, broker, min(since_us) AS since_us, max(until_us) AS until_us
FROM numbered
GROUP BY cluster, broker, stretch
