/*
meaning: >-
  What diff compares: for each side, before and after, its connections and the time from which and until which their exchanges
  belong to it. Without anything else said, the first and the second half of the time.
stored: true
*/
WITH span AS (
  SELECT min(epoch_us(coalesce(request_at, response_at))) AS begins,
    max(epoch_us(coalesce(request_at, response_at))) + 1 AS ends
  FROM exchanges
), halves AS (
  SELECT 'before' AS side, begins AS from_micros, begins + (ends - begins) // 2 AS to_micros FROM span
  UNION ALL
  SELECT 'after' AS side, begins + (ends - begins) // 2 AS from_micros, ends AS to_micros FROM span
)
SELECT side, connection_id, make_timestamptz(from_micros) AS from_at, make_timestamptz(to_micros) AS to_at
FROM connections CROSS JOIN halves
WHERE from_micros IS NOT NULL
