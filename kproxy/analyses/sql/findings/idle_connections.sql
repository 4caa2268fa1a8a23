/*
id: idle_connections
title: Clients that leave connections open
severity: notice
meaning: >
  Many connections of one client to one broker are open at the end and have been idle for a while: clients are made and never closed.
  Each costs memory on both sides; brokers have a limit (max.connections.per.ip), and close idle ones after ten minutes.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  connections: open at the end of their capture without a request for min_idle_seconds
  longest_idle_seconds: seconds from its last frame to the end of its capture
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Close producers, consumers and admin clients that are no longer used, or better, make one and keep it.
reference: https://kafka.apache.org/documentation/#brokerconfigs_connections.max.idle.ms
parameters:
  min_connections: {default: 50, meaning: "Fewer such connections of a client to a broker are not listed."}
  min_idle_seconds: {default: 30, meaning: "Time without a request until the end from which a connection is idle."}
sampled: Requests of these connections may be among the exchanges that are missing.
needs: [client_connections, client_exchanges, capture_times]
verdict: "{rows:client leaves/clients leave} connections open. Most: {client_id} at {client_address} to {broker}, {connections:,} idle for up to {longest_idle_seconds:,} s. Close clients that are no longer used."
order: 49
*/
WITH openings AS (
    SELECT connection_id, max(exchange) AS exchange
    FROM client_exchanges
    GROUP BY connection_id
),
found AS (
    SELECT
        c.client_id,
        c.client_address,
        c.broker,
        max(c.software) AS software,
        count(*) AS connections,
        max(t.until_us - c.last_seen_us) DIV 1000000 AS longest_idle_seconds,
        min(c.first_seen_at) AS first_at,
        max(c.last_seen_at) AS last_at,
        min(struct(c.last_seen_us, c.connection_id, o.exchange)) AS example
    FROM client_connections AS c
    JOIN openings AS o ON o.connection_id = c.connection_id
    JOIN capture_times AS t ON t.connection_id = c.connection_id
    WHERE c.closed = 'end of capture' AND t.until_us - c.last_seen_us >= :min_idle_seconds * 1000000
    GROUP BY c.client_id, c.client_address, c.broker
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    connections,
    longest_idle_seconds,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE connections >= :min_connections
ORDER BY connections DESC, client_id, client_address, broker
