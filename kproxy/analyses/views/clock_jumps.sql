/*
meaning: >-
  Where the clock of a capture went back by a second or more: the first request on a connection (at_us) that came after another one
  (before_us) and has an earlier time.
*/
SELECT *
FROM (
    SELECT client_id, client_address, software, cluster, connection_id, exchange, seen_at, at_us,
        lag(at_us) OVER (PARTITION BY connection_id ORDER BY exchange) AS before_us
    FROM client_exchanges
    WHERE request_at IS NOT NULL
) AS ordered
WHERE before_us - at_us >= 1000000
