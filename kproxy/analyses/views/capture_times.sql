/*
meaning: >-
  From when to when (since_us, until_us) the capture of each connection has frames of its cluster. Files that are read together
  are one capture, also if they are of other clusters and other hours: what ends with its file must not seem silent until the last
  file ends. So the time is that of the cluster, and ends where it has no frame for a quarter of an hour.
stored: true
*/
WITH seen AS (
  SELECT c.connection_id, c.capture, k.cluster, epoch_us(c.first_seen_at) AS first_us, epoch_us(c.last_seen_at) AS last_us
  FROM connections c
  JOIN connection_clusters k ON k.connection_id = c.connection_id
  WHERE c.first_seen_at IS NOT NULL AND (c.not_kafka IS NULL OR c.requests > 0)
), marked AS (
  SELECT *, CASE WHEN first_us > 900000000 + max(last_us) OVER (
    PARTITION BY capture, cluster ORDER BY first_us, last_us, connection_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 1 ELSE 0 END AS begins
  FROM seen
), numbered AS (
  SELECT *, sum(begins) OVER (
    PARTITION BY capture, cluster ORDER BY first_us, last_us, connection_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM marked
)
SELECT connection_id,
  min(first_us) OVER (PARTITION BY capture, cluster, number) AS since_us,
  max(last_us) OVER (PARTITION BY capture, cluster, number) AS until_us
FROM numbered
