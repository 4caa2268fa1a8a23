/*
meaning: Bytes of requests and responses of each client id, in sixty parts of the time.
*/
WITH span AS (
  SELECT min(epoch_us(coalesce(request_at, response_at))) AS begins, max(epoch_us(coalesce(request_at, response_at))) + 1 AS ends
  FROM exchanges
), parts AS (
  SELECT k.cluster,
    coalesce(e.client_id, '') AS client,
    (epoch_us(coalesce(e.request_at, e.response_at)) - s.begins) * 60 // (s.ends - s.begins) AS part,
    coalesce(e.request_size, 0) + coalesce(e.response_size, 0) AS bytes
  FROM exchanges e JOIN connection_clusters k ON k.connection_id = e.connection_id CROSS JOIN span s
  WHERE coalesce(e.request_at, e.response_at) IS NOT NULL
)
SELECT p.cluster, p.client, (s.begins + p.part * (s.ends - s.begins) // 60) // 1000 AS at_ms, (s.ends - s.begins) // 60 AS micros, sum(p.bytes) AS bytes
FROM parts p CROSS JOIN span s
GROUP BY p.cluster, p.client, p.part, s.begins, s.ends
ORDER BY p.cluster, p.client, at_ms
