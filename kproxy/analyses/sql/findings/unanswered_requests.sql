/*
id: unanswered_requests
title: Requests that never got an answer
severity: warning
meaning: >
  Requests that a broker answers at once went without an answer, and the connection then ended, although the client went on working on
  others: either the broker stood still and the client gave up after request.timeout.ms, or something cut the connection. Fetch and
  JoinGroup, which wait by design, and requests in flight when a client or the capture ends are left out, and so are connections
  that the broker closed before it had answered more than ApiVersions, SASL and Metadata: see reconnect_loop. Of a connection without
  any answer, as where one direction was captured, nothing is said if it had more than two requests: a client waits for the first. A
  request whose answer is missing between others is left out: brokers answer in order, so the capture lost it. Where a broker answered nobody for
  three seconds or more, see broker_away.
basis:
  rests_on: requests without an answer on connections that ended
  certainty: inferred
  wrong_if: the capture lost the answers
columns:
  requests: requests without an answer
  connections: connections of these requests
  closed_by_broker: connections that the broker closed
  apis: APIs of these requests
  reason: why there was no answer, as in the table exchanges
action: Look at the broker's log at that time; check idle timeouts of load balancers, firewalls and NAT between client and broker.
reference: https://kafka.apache.org/documentation/#producerconfigs_request.timeout.ms
parameters:
  min_requests: {default: 5, meaning: "Fewer such requests of a client to a broker are not listed."}
  min_alive_ms: {default: 1000, meaning: "How long the client has to go on, on connections that it had already, if it ended this one."}
verdict: "{rows:client/clients} left without answers. {most requests}: {client_id} at {client_address} got none from {broker} to {requests:request/requests} ({apis}) on {connections:connection/connections}. Check the broker's log, and firewalls or load balancers in between."
order: 19
only_if: FROM exchanges WHERE unanswered IS NOT NULL HAVING count(*) >= $min_requests
frame:
  group_by: [client_id, client_address, broker]
  values:
    closed_by_broker: count(DISTINCT CASE WHEN closed_by = 'broker' THEN connection_id END)
    apis: sorted_set(api_name)
    reason: max(unanswered)
  having: requests >= $min_requests
  order_by: requests DESC
*/
WITH unanswered AS (
    SELECT e.*, c.closed_by, c.closed_us
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE e.unanswered IS NOT NULL AND e.api_key NOT IN (1, 11, 14, 78) AND c.closed IN ('finished', 'reset')
        AND e.unanswered NOT LIKE 'its response is missing:%'
        AND (c.responses > 0 OR c.requests <= 2)
        AND NOT EXISTS (FROM forgotten_connections AS f WHERE f.connection_id = e.connection_id) -- see half_open_connections
        AND NOT EXISTS ( -- see broker_away
            FROM broker_absences AS b
            WHERE b.cluster = e.cluster AND b.broker = e.node AND e.at_us <= coalesce(b.back_us, b.until_us)
                AND coalesce(c.closed_us, b.until_us) >= b.went_us)
        AND NOT EXISTS (FROM expired_logins AS l WHERE l.connection_id = e.connection_id AND l.connections >= 3) -- see login_expired
), given_up AS (
    SELECT connection_id, exchange
    FROM unanswered
    WHERE closed_by = 'broker'
        AND connection_id IN (
            SELECT connection_id FROM exchanges
            WHERE api_key NOT IN (3, 17, 18, 36) AND (response_at IS NOT NULL OR NOT expects_response))
    UNION
    SELECT u.connection_id, u.exchange
    FROM unanswered AS u
    JOIN client_connections AS o ON o.client_id IS NOT DISTINCT FROM u.client_id AND o.client_address = u.client_address
    WHERE o.connection_id <> u.connection_id
        AND u.closed_by IS DISTINCT FROM 'broker'
        AND o.first_seen_us <= u.at_us
        AND o.last_seen_us >= coalesce(u.closed_us, u.at_us) + $min_alive_ms * 1000 -- after it gave up, not only while it waited
)
SELECT e.*
FROM unanswered AS e
JOIN given_up AS g ON g.connection_id = e.connection_id AND g.exchange = e.exchange
