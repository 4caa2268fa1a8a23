/*
id: connection_churn
title: Clients that connect anew for every piece of work
severity: notice
meaning: >
  Many short connections in a minute, each with work on it: a client object is made for each record, request or job. Each costs the
  broker a handshake, a login and a metadata answer, and the producer its batching. Left out are members of a group that are restarted
  again and again (see rebalances), and connections that the client reset at an answer that was larger than it asked for (see
  stuck_fetch_loop).
basis:
  rests_on: short connections with work on them in the busiest minute
  certainty: measured
  wrong_if: a proxy or NAT stands for many clients that have the same client id
columns:
  connections: connections that did some work and lived shorter than max_seconds
  connections_in_busiest_minute: such connections opened in the minute with the most
  requests_per_connection: average number of requests on them
action: Make one client when the process starts and keep it; a producer is safe for all threads of a process.
reference: https://kafka.apache.org/documentation/#producerapi
parameters:
  min_connections_per_minute: {default: 30, meaning: "Fewer short connections of a client to a broker, in its busiest minute, are not listed."}
  max_seconds: {default: 10, meaning: "Longest life of a connection that counts as short."}
verdict: "{rows:client connects/clients connect} anew for each piece of work. {most connections_in_busiest_minute}: {client_id} at {client_address}, {connections_in_busiest_minute:,} short connections to {broker} in one minute. Keep one client for the life of the process."
order: 43
only_if: FROM connections HAVING count(*) >= $min_connections_per_minute
frame:
  group_by: [client_id, client_address, broker]
  values:
    connections_in_busiest_minute: max(connections_in_minute)
    requests: CAST(sum(requests) AS BIGINT)
  derived:
    requests_per_connection: round(requests / connections, 1)
  having: connections_in_busiest_minute >= $min_connections_per_minute
  order_by: connections_in_busiest_minute DESC, connections DESC
  is_summed: true
*/
WITH working AS (
    SELECT connection_id, min(exchange) AS exchange
    FROM exchanges
    WHERE api_key NOT IN (3, 10, 17, 18, 22, 36) AND (response_at IS NOT NULL OR NOT expects_response)
    GROUP BY connection_id
), looping AS ( -- processes that end and are started again: see rebalances
    SELECT DISTINCT c.client_id, c.client_address, r.from_micros, r.to_micros
    FROM group_restarts AS r
    JOIN keyed_group_events AS e ON e.group_key = r.group_key AND e.event = 'join'
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE r.cause = 'restart loop'
), rejecting AS (
    SELECT DISTINCT connection_id FROM exchanges WHERE api_key = 1 AND response_size > max_bytes AND max_bytes >= 1000
), short AS (
    SELECT c.*, w.exchange
    FROM client_connections AS c
    JOIN working AS w ON w.connection_id = c.connection_id
    LEFT JOIN looping AS l ON l.client_id IS NOT DISTINCT FROM c.client_id AND l.client_address = c.client_address
        AND c.first_seen_us BETWEEN l.from_micros - 60000000 AND l.to_micros + 60000000
    LEFT JOIN rejecting AS r ON r.connection_id = c.connection_id AND c.closed = 'reset' AND c.closed_by = 'client'
    WHERE l.client_address IS NULL AND r.connection_id IS NULL AND c.closed <> 'end of capture' AND c.last_seen_us - c.first_seen_us <= $max_seconds * 1000000
), parts AS (
    SELECT client_id, client_address, broker,
        first_seen_us // 10000000 AS part,
        max(software) AS software,
        count(*) AS connections,
        CAST(sum(requests) AS BIGINT) AS requests,
        min(first_seen_at) AS first_at, max(last_seen_at) AS last_at,
        min({'first_seen_us': first_seen_us, 'connection_id': connection_id, 'exchange': exchange}) AS example
    FROM short
    GROUP BY client_id, client_address, broker, first_seen_us // 10000000
)
-- any minute, not one of the clock's: a storm of 40 s would often be two halves of those
SELECT *, CAST(sum(connections) OVER (
    PARTITION BY client_id, client_address, broker ORDER BY part RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING
) AS BIGINT) AS connections_in_minute
FROM parts
