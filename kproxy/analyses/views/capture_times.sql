/*
meaning: >-
  From when to when (since_us, until_us) the capture of each connection has frames. Captures are identified by base names, which files
  in several folders may share: after more than an hour without a frame, the same name means another capture.
stored: true
*/
WITH seen AS (
  SELECT connection_id, capture, epoch_us(first_seen_at) AS first_us, epoch_us(last_seen_at) AS last_us
  FROM connections
  WHERE first_seen_at IS NOT NULL
), marked AS (
  SELECT *, CASE WHEN first_us > 3600000000 + max(last_us) OVER (
    PARTITION BY capture ORDER BY first_us, last_us, connection_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 1 ELSE 0 END AS begins
  FROM seen
), numbered AS (
  SELECT *, sum(begins) OVER (
    PARTITION BY capture ORDER BY first_us, last_us, connection_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM marked
)
SELECT connection_id,
  min(first_us) OVER (PARTITION BY capture, number) AS since_us,
  max(last_us) OVER (PARTITION BY capture, number) AS until_us
FROM numbered
