/*
meaning: >-
  How long it took on each connection from the client's SYN to its first request (way_us), which is once there and back at least.
  With TLS that is not known.
stored: true
*/
SELECT c.connection_id, c.client_id, c.client_address, c.broker, c.closed_by, c.closed_us, e.last_us, e.first_us - epoch_us(r.syn_at) AS way_us
FROM client_connections AS c
JOIN connections AS r ON r.connection_id = c.connection_id
JOIN (
  SELECT connection_id, epoch_us(min(request_at)) AS first_us, epoch_us(max(request_at)) AS last_us FROM exchanges GROUP BY connection_id
) AS e ON e.connection_id = c.connection_id
WHERE c.tls_version IS NULL AND e.first_us >= epoch_us(r.syn_at) -- else its clock was set back
