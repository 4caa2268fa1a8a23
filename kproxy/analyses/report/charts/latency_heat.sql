/*
meaning: >-
  How many requests took how long, in sixty parts of the time and thirds of a power of ten of milliseconds. Not of APIs whose
  brokers wait on purpose: Fetch, JoinGroup, SyncGroup.
*/
WITH span AS (
  SELECT min(epoch_us(request_at)) AS begins, max(epoch_us(request_at)) + 1 AS ends
  FROM exchanges WHERE latency_ms IS NOT NULL AND api_key NOT IN (1, 11, 14, 78)
), parts AS (
  SELECT (epoch_us(e.request_at) - s.begins) * 60 // (s.ends - s.begins) AS part,
    CAST(floor(log10(greatest(e.latency_ms, 0.01)) * 3) AS INT) AS third
  FROM exchanges e CROSS JOIN span s
  WHERE e.latency_ms IS NOT NULL AND e.request_at IS NOT NULL AND e.api_key NOT IN (1, 11, 14, 78)
)
SELECT (s.begins + p.part * (s.ends - s.begins) // 60) // 1000 AS at_ms, (s.ends - s.begins) // 60 AS micros, p.third, count(*) AS requests
FROM parts p CROSS JOIN span s
GROUP BY p.part, p.third, s.begins, s.ends
ORDER BY at_ms, p.third
