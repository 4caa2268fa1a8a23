/*
id: unanswered_requests
title: Requests that never got an answer
severity: warning
meaning: >
  Requests that a broker answers at once went without an answer, and the connection then ended, although the client went on working on
  others: either the broker stood still and the client gave up after request.timeout.ms, or something cut the connection. Fetch and
  JoinGroup, which wait by design, and requests in flight when a client or the capture ends are left out.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  requests: without an answer
  connections: on which that happened
  closed_by_broker: of those connections, closed by the broker
  apis: APIs of those requests
  reason: as the table exchanges has it
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Look at the broker's log at that time; check idle timeouts of load balancers, firewalls and NAT between client and broker.
reference: https://kafka.apache.org/documentation/#producerconfigs_request.timeout.ms
parameters:
  min_requests: {default: 5, meaning: "Fewer such requests of a client to a broker are not listed."}
  min_alive_ms: {default: 1000, meaning: "How long the client has to go on, on connections that it had already, if it ended this one."}
needs: [client_exchanges, client_connections]
verdict: "{rows:client/clients} left without answers. Most: {client_id} at {client_address} got none from {broker} to {requests:request/requests} ({apis}) on {connections:connection/connections}. Check the broker's log, and firewalls or load balancers in between."
order: 19
*/
WITH unanswered AS (
    SELECT e.*, c.closed_by
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE e.unanswered IS NOT NULL AND e.api_key NOT IN (1, 11, 14, 78) AND c.closed IN ('finished', 'reset')
),
given_up AS (
    SELECT connection_id, exchange
    FROM unanswered
    WHERE closed_by = 'broker'
    UNION
    SELECT u.connection_id, u.exchange
    FROM unanswered AS u
    JOIN client_connections AS o ON o.client_id <=> u.client_id AND o.client_address = u.client_address
    WHERE o.connection_id <> u.connection_id
        AND o.first_seen_us <= u.at_us
        AND o.last_seen_us >= u.at_us + :min_alive_ms * 1000
),
found AS (
    SELECT
        e.client_id,
        e.client_address,
        e.broker,
        max(e.software) AS software,
        count(*) AS requests,
        count(DISTINCT e.connection_id) AS connections,
        count(DISTINCT CASE WHEN e.closed_by = 'broker' THEN e.connection_id END) AS closed_by_broker,
        sort_array(collect_set(e.api_name)) AS apis,
        max(e.unanswered) AS reason,
        min(e.at) AS first_at,
        max(e.at) AS last_at,
        min(struct(e.at_us, e.connection_id, e.exchange)) AS example
    FROM unanswered AS e
    JOIN given_up AS g ON g.connection_id = e.connection_id AND g.exchange = e.exchange
    GROUP BY e.client_id, e.client_address, e.broker
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    requests,
    connections,
    closed_by_broker,
    apis,
    reason,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE requests >= :min_requests
ORDER BY requests DESC, client_id, client_address, broker
