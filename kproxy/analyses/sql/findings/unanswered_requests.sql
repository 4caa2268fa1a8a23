/*
id: unanswered_requests
title: Requests that never got an answer
severity: warning
meaning: >
  Requests that a broker answers at once went without an answer, and the connection then ended, although the client went on
  working on others: either the broker stood still and the client gave up after request.timeout.ms, or what the request is about
  did (as its controller), or it takes no more connections (max.connections), or something cut the connection, or lost the larger
  packets on the way (a tunnel with a smaller MTU).
  Where a client still waits at the end of the capture, or did for hang_ms longer than the request may take, one is enough; so it is
  for Fetch, JoinGroup and SyncGroup, which wait by design. Other requests in flight when a client or the capture ends are left out, and so are
  connections that the broker closed before it had answered more than ApiVersions and SASL, or at a large request: see
  reconnect_loop. Of a connection without any answer, as where one direction was captured, nothing is said if it had more than two
  requests (a client waits for the first), or no SYN of the broker. A request whose answer is missing between others is left out: brokers answer in order,
  so the capture lost it. Where a broker answered nobody for three seconds or more, see broker_away.
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
  min_long: {default: 3, meaning: "Fewer requests are not listed either where the client waited for long_ms."}
  long_ms: {default: 5000, meaning: "From so long on it counts that the client waited, also if it did nothing else: the broker answered others meanwhile."}
  hang_ms: {default: 60000, meaning: "From so long on, beyond the time that the request allows, one request is enough."}
  min_alive_ms: {default: 1000, meaning: "How long the client has to go on, on connections that it had already, if it ended this one."}
verdict: "{rows:client/clients} left without answers. {most requests}: {client_id} at {client_address} got none from {broker} to {requests:request/requests} ({apis}) on {connections:connection/connections}. Check the broker's log, and firewalls or load balancers in between."
order: 19
only_if: >-
  FROM exchanges WHERE unanswered IS NOT NULL OR (exchange = 1 AND latency_ms >= $long_ms)
  HAVING count(*) >= least($min_requests, $min_long) OR min(epoch_us(request_at)) + $hang_ms * 1000 <= (SELECT max(epoch_us(last_seen_at)) FROM connections)
frame:
  group_by: [client_id, client_address, broker]
  values:
    closed_by_broker: count(DISTINCT CASE WHEN closed_by = 'broker' THEN connection_id END)
    apis: sorted_set(api_name)
    reason: coalesce(max(unanswered), 'the answer came when the client had given up')
    long: CAST(sum(long) AS BIGINT)
  having: requests >= $min_requests OR long >= $min_long
  order_by: requests DESC
*/
WITH unanswered AS (
    SELECT e.*, c.closed_by, c.closed_us, c.closed IN ('finished', 'reset') AS is_closed, c.gaps, c.responses,
        e.api_key IN (1, 11, 14, 78) AS waits_by_design, y.syn_ack_at IS NOT NULL AS is_open,
        g.group_timeout_ms,
        CASE WHEN c.closed = 'end of capture' THEN coalesce(c.closed_us, t.until_us) ELSE c.closed_us END - e.at_us AS waited_us
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    JOIN connections AS y ON y.connection_id = e.connection_id
    JOIN capture_times AS t ON t.connection_id = e.connection_id
    LEFT JOIN (
        SELECT connection_id, min(exchange) AS exchange
        FROM exchanges
        WHERE coalesce(latency_ms, 5000) >= 5000 AND (acks = -1 OR api_key IN (8, 28))
        GROUP BY connection_id
    ) AS w ON w.connection_id = e.connection_id AND w.exchange <= e.exchange
    LEFT JOIN ( -- JoinGroup waits for the slowest member
        SELECT cluster, group_id, max(coalesce(nullif(rebalance_timeout_ms, -1), session_timeout_ms)) AS group_timeout_ms
        FROM client_exchanges
        WHERE api_key = 11
        GROUP BY cluster, group_id
    ) AS g ON g.cluster = e.cluster AND g.group_id = e.group_id
    WHERE (e.unanswered IS NOT NULL OR (e.exchange = 1 AND c.requests = 1 AND c.closed_by = 'client' AND e.latency_ms >= $long_ms))
        AND coalesce(e.unanswered, '') NOT LIKE 'its response is missing:%'
        AND (c.responses > 0 OR c.requests <= 2)
        AND NOT EXISTS (FROM forgotten_connections AS f WHERE f.connection_id = e.connection_id) -- see half_open_connections
        AND NOT EXISTS (FROM failed_attempts AS t WHERE t.client_address = e.client_address AND t.address = e.broker AND t.at_us > e.at_us) -- see no_connection
        AND NOT EXISTS ( -- see broker_away; with acks=all, or to store a commit, it waits for other brokers, and what was sent behind it does, too
            FROM broker_absences AS b
            WHERE b.cluster = e.cluster AND (b.broker = e.node OR w.connection_id IS NOT NULL) AND e.at_us <= coalesce(b.back_us, b.until_us)
                AND coalesce(c.closed_us, b.until_us) >= b.went_us AND (b.was_at_work OR c.requests > 1))
        AND NOT EXISTS ( -- a version that the broker refuses: see reconnect_loop
            FROM broker_versions AS v
            JOIN connections AS r ON r.connection_id = e.connection_id
            WHERE c.closed_by = 'broker' AND v.broker_address = r.broker_address AND v.broker_port = r.broker_port AND v.api_key = e.api_key
                AND (e.api_version NOT BETWEEN v.lowest AND v.highest OR (e.api_key = 0 AND e.api_version < 3 AND v.highest >= 12)))
        AND NOT (c.closed_by = 'client' AND EXISTS ( -- it looks for its coordinator: see coordinator_errors
            FROM client_errors AS o WHERE o.connection_id = e.connection_id AND o.error_code IN (14, 15, 16)))
        AND NOT EXISTS (FROM expired_logins AS l WHERE l.connection_id = e.connection_id AND l.connections >= 3) -- see login_expired
), answered AS (
    SELECT broker, at_us, epoch_us(response_at) AS answered_us
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND api_key NOT IN (11, 14, 78)
), hanging AS (
    SELECT u.*
    FROM unanswered AS u
    ASOF JOIN answered AS o ON o.broker = u.broker AND o.at_us > u.at_us -- of another connection, as none comes later on this one
    WHERE u.waited_us >= $long_ms * 1000 AND u.closed_by IS DISTINCT FROM 'broker' AND u.gaps = 0
        AND o.answered_us < u.at_us + u.waited_us + 1000000 -- or as soon as the client tries again
        AND NOT EXISTS (
            FROM exchanges AS x WHERE x.connection_id = u.connection_id AND x.exchange > u.exchange AND x.response_at IS NOT NULL)
), given_up AS (
    SELECT connection_id, exchange, 0 AS long
    FROM unanswered AS u
    WHERE NOT waits_by_design AND closed_by = 'broker' AND is_closed
        AND connection_id IN (
            SELECT connection_id FROM exchanges
            WHERE api_key NOT IN (17, 18, 36) AND (api_key <> 3 OR u.request_size < 65536) AND (response_at IS NOT NULL OR NOT expects_response))
    UNION ALL
    SELECT u.connection_id, u.exchange, 0
    FROM unanswered AS u
    JOIN client_connections AS o ON o.client_id IS NOT DISTINCT FROM u.client_id AND o.client_address = u.client_address
    WHERE o.connection_id <> u.connection_id AND NOT u.waits_by_design
        AND u.closed_by IS DISTINCT FROM 'broker' AND u.is_closed
        AND o.first_seen_us <= u.at_us
        AND o.last_seen_us >= coalesce(u.closed_us, u.at_us) + $min_alive_ms * 1000 -- after it gave up, not only while it waited
    UNION ALL
    SELECT u.connection_id, u.exchange, 1 -- the broker answers others, and not this one for long; a client that gave up may be unable to say so
    FROM hanging AS u
    WHERE NOT u.waits_by_design
        AND (u.closed_us IS NOT NULL OR EXISTS (
            FROM client_connections AS o
            WHERE o.client_id IS NOT DISTINCT FROM u.client_id AND o.client_address = u.client_address AND o.broker = u.broker
                AND o.first_seen_us > u.at_us))
    UNION ALL
    SELECT u.connection_id, u.exchange, $min_long -- for minutes
    FROM hanging AS u
    ASOF JOIN answered AS o ON o.broker = u.broker AND o.answered_us >= u.at_us + $long_ms * 1000
    WHERE o.answered_us <= u.at_us + $hang_ms * 1000 -- the broker was captured meanwhile: no file is missing
        AND u.responses > 0 AND u.waited_us >= $hang_ms * 1000 AND u.waited_us // 1000 >= CASE
        WHEN u.api_key = 11 AND u.closed_by = 'client' THEN 4000 -- Java's waits five seconds longer than a rebalance may take
        ELSE $hang_ms END + coalesce(
        CASE u.api_key WHEN 1 THEN u.max_wait_ms WHEN 78 THEN u.max_wait_ms WHEN 11 THEN u.group_timeout_ms WHEN 14 THEN 300000 ELSE u.timeout_ms END, 0)
    UNION ALL
    SELECT connection_id, exchange, 1 -- the broker takes connections and answers nobody
    FROM unanswered
    WHERE (responses = 0 OR unanswered IS NULL) AND is_open AND NOT waits_by_design AND waited_us >= $long_ms * 1000 AND closed_by IS DISTINCT FROM 'broker' AND gaps = 0
)
SELECT e.*, g.long
FROM unanswered AS e
JOIN (
    SELECT connection_id, exchange, max(long) AS long FROM given_up GROUP BY connection_id, exchange
) AS g ON g.connection_id = e.connection_id AND g.exchange = e.exchange
