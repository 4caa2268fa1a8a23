/*
meaning: >-
  The connections that the client closed sooner after its last request than an answer needs for the way, where that takes 100 ms at least:
  from a client's SYN to its first request is once there and back. With TLS that is not known.
*/
SELECT c.connection_id, c.client_id, c.client_address
FROM client_connections AS c
JOIN connections AS r ON r.connection_id = c.connection_id
JOIN (
  SELECT connection_id, epoch_us(min(request_at)) AS first_us, epoch_us(max(request_at)) AS last_us FROM exchanges GROUP BY connection_id
) AS e ON e.connection_id = c.connection_id
WHERE c.closed_by = 'client' AND c.tls_version IS NULL AND e.first_us - epoch_us(r.syn_at) >= 100000
  AND c.closed_us - e.last_us BETWEEN 1 AND e.first_us - epoch_us(r.syn_at)
