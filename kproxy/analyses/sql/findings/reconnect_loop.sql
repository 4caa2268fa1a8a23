/*
id: reconnect_loop
title: Clients that connect, get nowhere, and connect again
severity: warning
meaning: >
  Connection after connection ends within seconds with nothing but the opening on it (ApiVersions, SASL), while few or none
  of this client get any further. The login fails, or the two sides do not agree on a protocol.
columns:
  client_id: ""
  client_address: ""
  software: ""
  user_name: ""
  sasl_mechanism: ""
  broker: ""
  connections: that did nothing but log in, or try to
  connections_in_busiest_five_minutes: of those
  errors: of those, with an error
  error_name: Kafka's name of one of the errors; none
  closed_by_broker: of those, closed by the broker first
  connections_that_worked: other connections of the client, which did some work
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Look at the last exchange of the example connection and at the broker's log: wrong credentials or mechanism, a
  listener of another security protocol.
reference: https://kafka.apache.org/documentation/#security_sasl
parameters:
  min_connections: {default: 10, meaning: "Fewer such connections of a client to a broker, in its busiest five minutes, are not listed."}
  max_seconds: {default: 5, meaning: "Longest life of a connection that counts as one that got nowhere."}
sampled: What these connections did after the login may be among the exchanges that are missing.
needs: [client_connections, exchanges]
verdict: "{rows:client reconnects/clients reconnect} in a loop without getting to work. Most: {client_id} at {client_address} to {broker}, {connections:,} connections; errors: {error_name}; {closed_by_broker:,} closed by the broker. Check its login and security protocol."
order: 20
*/
WITH worked AS (
    SELECT
        connection_id,
        count(CASE WHEN api_key NOT IN (17, 18, 36) THEN 1 END) AS work,
        max(CASE WHEN error_name IS NOT NULL AND NOT (api_key = 18 AND error_name = 'UNSUPPORTED_VERSION') THEN error_name END)
            AS error_name,
        max(exchange) AS exchange
    FROM exchanges
    GROUP BY connection_id
),
idle AS (
    SELECT c.*, w.error_name, w.exchange
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    WHERE w.work = 0 AND c.closed <> 'end of capture' AND c.last_seen_us - c.first_seen_us <= :max_seconds * 1000000
),
periods AS (
    SELECT
        client_id,
        client_address,
        broker,
        first_seen_us DIV 300000000 AS period,
        max(software) AS software,
        max(sasl_mechanism) AS sasl_mechanism,
        max(user_name) AS user_name,
        max(error_name) AS error_name,
        count(*) AS connections,
        count(error_name) AS errors,
        count(CASE WHEN closed_by = 'broker' THEN 1 END) AS closed_by_broker,
        min(first_seen_at) AS first_at,
        max(last_seen_at) AS last_at,
        min(struct(first_seen_us, connection_id, exchange)) AS example
    FROM idle
    GROUP BY client_id, client_address, broker, first_seen_us DIV 300000000
),
working AS (
    SELECT c.client_id, c.client_address, count(*) AS connections
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    WHERE w.work > 0
    GROUP BY c.client_id, c.client_address
),
found AS (
    SELECT
        client_id,
        client_address,
        broker,
        max(software) AS software,
        max(sasl_mechanism) AS sasl_mechanism,
        max(user_name) AS user_name,
        max(error_name) AS error_name,
        CAST(sum(connections) AS BIGINT) AS connections,
        max(connections) AS most,
        CAST(sum(errors) AS BIGINT) AS errors,
        CAST(sum(closed_by_broker) AS BIGINT) AS closed_by_broker,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM periods
    GROUP BY client_id, client_address, broker
)
SELECT
    f.client_id,
    f.client_address,
    f.software,
    f.user_name,
    f.sasl_mechanism,
    f.broker,
    f.connections,
    f.most AS connections_in_busiest_five_minutes,
    f.errors,
    coalesce(f.error_name, 'none') AS error_name,
    f.closed_by_broker,
    coalesce(w.connections, 0) AS connections_that_worked,
    f.first_at,
    f.last_at,
    f.example.connection_id AS connection_id,
    f.example.exchange AS exchange
FROM found AS f
LEFT JOIN working AS w ON w.client_id <=> f.client_id AND w.client_address = f.client_address
WHERE f.most >= :min_connections AND f.connections > coalesce(w.connections, 0)
ORDER BY connections DESC, client_id, client_address, broker
