/*
meaning: >-
  Each connection with a request: whether the client asked for ApiVersions on it (negotiates), and whether it was seen from its first
  request on (begins), and the number that it gave to that one (counts_from).
stored: true
*/
SELECT connection_id,
  count(CASE WHEN api_key = 18 THEN 1 END) > 0 AS negotiates,
  count(CASE WHEN exchange = 1 AND correlation_id <= 1 THEN 1 END) > 0 AS begins,
  min(CASE WHEN exchange = 1 THEN correlation_id END) AS counts_from
FROM exchanges
WHERE request_at IS NOT NULL
GROUP BY connection_id
