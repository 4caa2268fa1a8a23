/*
meaning: >-
  Each connection with a request: whether the client asked for ApiVersions on it (negotiates), and whether it was seen from its first
  request on (begins).
stored: true
*/
SELECT connection_id,
  count(CASE WHEN api_key = 18 THEN 1 END) > 0 AS negotiates,
  count(CASE WHEN exchange = 1 AND correlation_id <= 1 THEN 1 END) > 0 AS begins
FROM exchanges
WHERE request_at IS NOT NULL
GROUP BY connection_id
