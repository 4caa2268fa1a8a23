/*
id: idle_connections
title: Clients that leave connections open
severity: notice
meaning: >
  Many connections of one client to one broker are open at the end and have been idle for a while: clients are made and never closed.
  Each costs memory on both sides; brokers have a limit (max.connections.per.ip), and close idle ones after ten minutes.
basis:
  rests_on: connections that are open and idle at the end of the capture
  certainty: measured
  wrong_if: they are used again after the end of the capture
columns:
  connections: open at the end of their capture without a request for min_idle_seconds
  longest_idle_seconds: seconds from its last frame to the end of its capture
action: Close producers, consumers and admin clients that are no longer used, or better, make one and keep it.
reference: https://kafka.apache.org/documentation/#brokerconfigs_connections.max.idle.ms
parameters:
  min_connections: {default: 50, meaning: "Fewer such connections of a client to a broker are not listed."}
  min_idle_seconds: {default: 30, meaning: "Time without a request until the end from which a connection is idle."}
sampled: Requests of these connections may be among the exchanges that are missing.
verdict: "{rows:client leaves/clients leave} connections open. {most connections}: {client_id} at {client_address} to {broker}, {connections:,} idle for up to {longest_idle_seconds:,} s. Close clients that are no longer used."
order: 49
only_if: FROM connections HAVING count(*) >= $min_connections
frame:
  group_by: [client_id, client_address, broker]
  values:
    connections: count(*)
    longest_idle_seconds: max(until_us - last_seen_us) // 1000000
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(last_seen_us := last_seen_us, connection_id := connection_id, exchange := exchange))
  having: connections >= $min_connections
  order_by: connections DESC
*/
WITH openings AS (
    SELECT connection_id, max(exchange) AS exchange
    FROM client_exchanges
    GROUP BY connection_id
)
SELECT c.*, o.exchange, t.until_us
FROM client_connections AS c
JOIN openings AS o ON o.connection_id = c.connection_id
JOIN capture_times AS t ON t.connection_id = c.connection_id
WHERE c.closed = 'end of capture' AND t.until_us - c.last_seen_us >= $min_idle_seconds * 1000000
