/*
id: reconnect_loop
title: Clients that connect and get nowhere
severity: warning
meaning: >
  Connection after connection ends within seconds with nothing but the opening on it (ApiVersions, SASL), while few or none of
  this client get any further: the two sides do not agree on a protocol. Connections that also looked up Metadata count if there
  are many of them and no connection of the client did more, and few stayed open: the addresses in it may be out of reach. Three
  causes are certain, and one connection is enough for them, or two of TLS, as a scan sends one: clear text answered by a TLS
  alert; TLS at a port where others work in the clear (where nobody works, only that the broker ends TLS without an answer is
  known); and connections without SASL that the broker ends at the first request after ApiVersions, at a port where others work
  only after a login, or none works and three end so, or none works any more and ten end so. Logins that the broker refuses are in
  authentication_failed. Where it ends three connections at a request whose version it does not take, or at one that is larger
  than any that it has answered, so it is. Where it ends them before any answer while others work, it has too many connections of
  this host, or something in between ends them. Where a port offers what controllers do and no Metadata, it is theirs, and one
  connection of a client is enough. Where the client ends three sooner after its request than an answer needs for the way
  (measured from its SYN to its first request), and few of its connections work, its timeout is too short. Where three were
  answered at their opening, nothing came after that, not even an end, and the client opened the next one, larger packets vanish.
  Otherwise it is unknown: the login, or an address that is out of reach.
basis:
  rests_on: connections that end after their opening, and the other connections at that port
  certainty: inferred
  wrong_if: the client got further on a connection that was not captured
columns:
  severity: "notice: fewer than three such connections in any ten seconds, as of a health check, and nothing says what is wrong, or there are fewer than six, or some that worked"
  cause: "what the two sides do not agree on; unknown: see error_name"
  change: what to change
  api: the request at which the broker ended one of them; none
  user_name: ""
  sasl_mechanism: ""
  broker: ""
  connections: connections with nothing but a login, or an attempt, or a look at Metadata
  connections_in_busiest_five_minutes: such connections in the five minutes with the most
  errors: such connections with an error
  error_name: Kafka's name of one of the errors; none
  closed_by_broker: such connections that the broker closed first
  connections_that_worked: other connections of the client, which did some work
action: >
  Change what the row says. Where the cause is unknown, look at the last exchange of the example connection and at the broker's
  log: wrong credentials or mechanism, or advertised.listeners that this client cannot reach.
reference: https://kafka.apache.org/documentation/#security_sasl
parameters:
  min_connections: {default: 10, meaning: "Fewer such connections of a client to a broker, in its busiest five minutes, are not listed."}
  min_certain_connections: {default: 1, meaning: "Where the cause is certain, fewer connections are not listed; of TLS, fewer than two of these."}
  min_metadata_connections: {default: 30, meaning: "Connections that also looked up Metadata, which a probe or a script may do on purpose, count only if so many begin in ten seconds."}
  max_seconds: {default: 5, meaning: "Longest life of a connection that counts as one that got nowhere."}
sampled: What these connections did after the login may be among the exchanges that are missing.
verdict: "{rows:client connects/clients connect} without getting to work. {most connections}: {client_id} at {client_address} to {broker}, {connections:connection/connections}, cause: {cause}[ ({error_name})]; {closed_by_broker:,} closed by the broker. Change {change}."
order: 20
only_if: >-
  FROM connections AS c
  WHERE (closed <> 'end of capture' OR requests > 0) AND epoch_us(coalesce(closed_at, last_seen_at)) - epoch_us(first_seen_at) <= $max_seconds * 1000000
    AND (responses > 0 OR closed_by = 'broker' OR not_kafka = 'tls') AND connection_id NOT IN (
      SELECT connection_id FROM exchanges
      WHERE (response_at IS NOT NULL OR NOT expects_response) AND coalesce(api_key, 0) NOT IN (3, 17, 18, 22, 36))
    OR connection_id IN (SELECT connection_id FROM exchanges WHERE NOT regexp_matches(array_to_string(offered_versions, ' '), '(^| )3:'))
  HAVING count(*) >= least($min_connections, 3 * $min_certain_connections) OR (count(*) >= $min_certain_connections AND (
    count(CASE WHEN closed_by = 'broker' OR not_kafka = 'tls' THEN 1 END) > 0
    OR EXISTS (SELECT 1 FROM exchanges WHERE error_name = 'ILLEGAL_SASL_STATE' OR NOT regexp_matches(array_to_string(offered_versions, ' '), '(^| )3:'))))
frame:
  group_by: [client_id, client_address, broker, cause]
  values:
    user_name: max(user_name)
    sasl_mechanism: max(sasl_mechanism)
    change: max(change)
    api: coalesce(max(ended_api), 'none')
    most_in_ten_seconds: max(most_in_ten_seconds)
    connections_in_busiest_five_minutes: max(connections)
    errors: CAST(sum(errors) AS BIGINT)
    error_name: coalesce(max(error_name), 'none')
    closed_by_broker: CAST(sum(closed_by_broker) AS BIGINT)
    connections_that_worked: coalesce(max(connections_that_worked), 0)
  derived:
    severity: CASE WHEN cause = 'unknown' AND most_in_ten_seconds < 3 AND errors + closed_by_broker = 0 AND sasl_mechanism IS NULL THEN 'notice'
      WHEN cause IN ('unknown', 'ended before any answer', 'nothing more arrives') OR most_in_ten_seconds >= 3 OR (connections >= 6 AND connections_that_worked = 0 AND cause NOT LIKE 'TLS%')
      THEN 'warning' ELSE 'notice' END
  is_summed: true
  having: >-
    (cause NOT IN ('unknown', 'ended before any answer') AND (cause <> 'waits less than the way takes' OR connections > connections_that_worked)
      AND connections >= $min_certain_connections * CASE
      WHEN cause LIKE 'TLS%' THEN 2 WHEN cause IN ('version that the broker refuses', 'request larger than the broker takes', 'waits less than the way takes', 'nothing more arrives')
      THEN 3 ELSE 1 END)
    OR (connections_in_busiest_five_minutes >= $min_connections AND connections > connections_that_worked)
  order_by: connections DESC
*/
WITH worked AS (
    SELECT connection_id,
        -- only what the broker answered, if it has to, is work; a response without its request may be an answer to anything
        count(CASE WHEN (response_at IS NOT NULL OR NOT expects_response) AND coalesce(api_key, 0) NOT IN (3, 17, 18, 36) AND NOT is_vain THEN 1 END) AS work,
        count(CASE WHEN api_key = 3 AND response_at IS NOT NULL THEN 1 END) > 0 AS has_metadata,
        count(CASE WHEN api_key NOT IN (17, 18, 36) AND response_at IS NULL AND expects_response THEN 1 END) > 0 AS is_refused,
        max(CASE WHEN error_name IS NOT NULL AND NOT (api_key = 18 AND error_name = 'UNSUPPORTED_VERSION') THEN error_name END)
            AS error_name,
        max(exchange) AS exchange,
        max(CASE WHEN is_left THEN struct_pack(
            exchange := exchange, api_key := api_key, api_version := api_version, size := request_size, name := api_name) END) AS ended_at,
        max(CASE WHEN api_key = 0 AND response_at IS NOT NULL THEN request_size END) AS answered_size
    FROM (
        SELECT *, api_key NOT IN (3, 17, 18, 36) AND response_at IS NULL AND expects_response AS is_left,
            coalesce(api_key, 0) = 22 AND connection_id IN (SELECT connection_id FROM impatient_connections) AS is_vain -- answered too late for the client
        FROM exchanges
    )
    GROUP BY connection_id
), listeners AS ( -- what those who work speak
    SELECT c.broker, bool_and(c.tls_version IS NULL) AS is_clear, bool_and(c.sasl_mechanism IS NOT NULL) AS has_sasl,
        max(c.last_seen_us) AS until_us
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    WHERE c.responses > 0 AND c.not_kafka IS NULL AND (w.work > 0 OR w.has_metadata)
    GROUP BY c.broker
), taken AS ( -- the largest Produce request that the broker has answered
    SELECT c.broker, max(w.answered_size) AS size
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    GROUP BY c.broker
), controllers AS ( -- their listeners offer no Metadata; brokers and tools for controllers do other things there
    SELECT broker_address, broker_port
    FROM broker_versions
    GROUP BY broker_address, broker_port
    HAVING count(CASE WHEN api_key = 3 THEN 1 END) = 0 AND count(CASE WHEN api_key IN (52, 62) THEN 1 END) > 0
), silent AS ( -- answered once, then without a packet, not even one that closes it, when the client opens the next one
    SELECT connection_id
    FROM (
        SELECT *, lead(first_seen_us) OVER (PARTITION BY client_id, client_address, broker ORDER BY first_seen_us) AS next_us,
            count(CASE WHEN is_open THEN 1 END) OVER (PARTITION BY client_id, client_address, broker) AS of_these,
            count(CASE WHEN NOT is_open THEN 1 END) OVER (PARTITION BY client_id, client_address, broker) AS of_others,
            sum(work) OVER (PARTITION BY client_id, client_address, broker) AS works
        FROM (
            SELECT c.*, coalesce(w.work, 0) AS work,
                c.closed = 'end of capture' AND c.closed_by IS NULL AND c.requests > 0 AND c.responses = c.requests AND c.gaps = 0
                    AND coalesce(w.work, 0) = 0 AND NOT w.has_metadata AS is_open
            FROM client_connections AS c
            JOIN worked AS w ON w.connection_id = c.connection_id
        ) AS o
    ) AS n
    WHERE is_open AND works = 0 AND of_these >= 4 AND of_these > 2 * of_others AND next_us - last_seen_us >= 1000000
), wanting AS ( -- where nobody works, or nobody any more since it was started with other settings, and connections without a login end at the first request that is not part of one
    SELECT c.broker
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    LEFT JOIN listeners AS l ON l.broker = c.broker
    WHERE c.closed_by = 'broker' AND c.sasl_mechanism IS NULL AND c.not_kafka IS NULL AND w.is_refused AND w.work = 0 AND NOT w.has_metadata
        AND (l.broker IS NULL OR c.first_seen_us > l.until_us)
    GROUP BY c.broker, l.broker
    HAVING count(*) >= 3 AND (l.broker IS NULL OR (count(*) >= 10 AND max(c.first_seen_us) - min(c.first_seen_us) >= 5000000)) AND count(CASE WHEN c.responses > 0 THEN 1 END) > 0
), causes AS (
    SELECT c.*, w.error_name, w.exchange, coalesce(w.has_metadata, false) AS has_metadata,
        CASE WHEN c.closed_by = 'broker' THEN w.ended_at.name || ' v' || w.ended_at.api_version END AS ended_api,
        CASE
            WHEN c.not_kafka = 'tls' AND c.tls_version IS NULL AND c.requests > 0 THEN 'clear text to a TLS listener'
            WHEN c.not_kafka = 'tls' AND c.tls_version IS NULL AND l.is_clear THEN 'TLS to a listener of clear text'
            WHEN c.not_kafka = 'tls' AND r.tls_version IS NULL AND r.tls_alerts = [] AND c.closed_by = 'broker' AND c.gaps = 0
                AND l.broker IS NULL AND c.broker NOT IN (SELECT broker FROM client_connections WHERE tls_version IS NOT NULL) AND (is_kafka_port(r.broker_port) OR c.broker IN (SELECT address FROM advertised_brokers))
                THEN 'TLS that the broker ends without an answer'
            WHEN c.not_kafka IS NOT NULL THEN NULL
            WHEN k.broker_port IS NOT NULL THEN 'listener of controllers'
            WHEN s.connection_id IS NOT NULL THEN 'nothing more arrives'
            WHEN l.has_sasl AND c.sasl_mechanism IS NULL AND c.closed_by = 'broker' AND w.is_refused AND NOT w.has_metadata
                THEN 'no login at a listener of SASL'
            WHEN w.error_name = 'ILLEGAL_SASL_STATE' AND l.has_sasl IS NOT TRUE THEN 'login at a listener without SASL'
            -- brokers since 4.0 offer Produce from v0 on, for the sake of librdkafka, and refuse those before v3
            WHEN c.closed_by = 'broker' AND (w.ended_at.api_version NOT BETWEEN v.lowest AND v.highest
                OR (w.ended_at.api_key = 0 AND w.ended_at.api_version < 3 AND v.highest >= 12))
                THEN 'version that the broker refuses'
            WHEN c.closed_by = 'broker' AND w.ended_at.api_key = 0 AND w.ended_at.size >= 65536 AND w.ended_at.size > coalesce(t.size, 0)
                THEN 'request larger than the broker takes'
            WHEN n.broker IS NOT NULL AND c.sasl_mechanism IS NULL AND c.closed_by = 'broker' AND w.is_refused
                THEN 'no login at a listener of SASL'
            WHEN c.closed_by = 'broker' AND c.responses = 0 AND c.requests = 1 AND l.broker IS NOT NULL AND w.ended_at IS NULL
                THEN 'ended before any answer'
            WHEN i.connection_id IS NOT NULL THEN 'waits less than the way takes'
            ELSE 'unknown'
        END AS cause
    FROM client_connections AS c
    LEFT JOIN worked AS w ON w.connection_id = c.connection_id
    LEFT JOIN listeners AS l ON l.broker = c.broker
    LEFT JOIN wanting AS n ON n.broker = c.broker
    LEFT JOIN taken AS t ON t.broker = c.broker
    LEFT JOIN connections AS r ON r.connection_id = c.connection_id
    LEFT JOIN broker_versions AS v ON v.broker_address = r.broker_address AND v.broker_port = r.broker_port
        AND v.api_key = w.ended_at.api_key
    LEFT JOIN silent AS s ON s.connection_id = c.connection_id
    LEFT JOIN impatient_connections AS i ON i.connection_id = c.connection_id
    LEFT JOIN controllers AS k ON k.broker_address = r.broker_address AND k.broker_port = r.broker_port AND c.responses > 0
        AND c.client_address NOT IN (SELECT broker_address FROM connections WHERE responses > 0)
    -- without a response, nothing is known unless the broker was seen to close
    WHERE coalesce(w.work, 0) = 0 AND (k.broker_port IS NOT NULL OR s.connection_id IS NOT NULL OR (c.closed <> 'end of capture' OR c.closed_by = 'broker') AND coalesce(c.closed_us, c.last_seen_us) - c.first_seen_us <= $max_seconds * 1000000
        AND (c.responses > 0 OR c.closed_by = 'broker' OR c.not_kafka = 'tls'))
), named AS (
    SELECT * EXCLUDE (cause), -- a connection may end before its answer is seen
        CASE WHEN cause = 'unknown' AND max(CASE WHEN cause IN ('version that the broker refuses', 'request larger than the broker takes', 'no login at a listener of SASL') THEN 1 END)
            OVER (PARTITION BY client_id, client_address, broker) = 1 THEN NULL -- its other attempts have the same cause
        WHEN cause = 'unknown' AND max(
            CASE WHEN error_name IN ('SASL_AUTHENTICATION_FAILED', 'UNSUPPORTED_SASL_MECHANISM') THEN 1 END
        ) OVER (PARTITION BY client_id, client_address, broker, has_metadata) = 1 THEN NULL ELSE cause END AS cause -- see authentication_failed
    FROM causes
), idle AS (
    SELECT *,
        count(*) OVER (
            PARTITION BY client_id, client_address, broker, has_metadata, cause, first_seen_us // 10000000) AS in_ten_seconds
    FROM named
    WHERE cause IS NOT NULL
), periods AS (
    SELECT client_id, client_address, broker, has_metadata, cause,
        CASE cause
            WHEN 'clear text to a TLS listener' THEN 'security.protocol to SSL or SASL_SSL, or the port'
            WHEN 'TLS to a listener of clear text' THEN 'security.protocol to PLAINTEXT or SASL_PLAINTEXT, or the port'
            WHEN 'TLS that the broker ends without an answer'
                THEN 'security.protocol, as that listener may be a PLAINTEXT one'
            WHEN 'no login at a listener of SASL' THEN 'security.protocol to SASL_PLAINTEXT or SASL_SSL, with a user'
            WHEN 'login at a listener without SASL' THEN 'security.protocol to PLAINTEXT or SSL, or the port'
            WHEN 'version that the broker refuses' THEN 'its release, or the release that it takes the broker for'
            WHEN 'request larger than the broker takes' THEN 'the size of its requests, or socket.request.max.bytes'
            WHEN 'listener of controllers' THEN 'bootstrap.servers to the port of the brokers'
            WHEN 'nothing more arrives' THEN 'the MTU on the way, where large packets may vanish (a tunnel or VPN)'
            WHEN 'waits less than the way takes' THEN 'its request timeout, which is shorter than the way there and back'
            WHEN 'ended before any answer' THEN 'max.connections.per.ip, its open connections, or a firewall'
            ELSE CASE WHEN has_metadata OR (max(responses) > 0 AND count(sasl_mechanism) + count(error_name) + count(CASE WHEN closed_by = 'broker' THEN 1 END) = 0)
                    THEN 'advertised.listeners, or how often it connects'
                WHEN max(responses) = 0 THEN 'advertised.listeners or its security.protocol, as nothing is answered there'
                ELSE 'its login, or advertised.listeners' END
        END AS change,
        max(software) AS software,
        max(sasl_mechanism) AS sasl_mechanism,
        max(user_name) AS user_name,
        max(error_name) AS error_name,
        max(ended_api) AS ended_api,
        count(*) AS connections,
        max(in_ten_seconds) AS most_in_ten_seconds,
        count(error_name) AS errors,
        count(CASE WHEN closed_by = 'broker' THEN 1 END) AS closed_by_broker,
        min(first_seen_at) AS first_at, max(last_seen_at) AS last_at,
        min({'first_seen_us': first_seen_us, 'connection_id': connection_id, 'exchange': exchange}) AS example
    FROM idle
    WHERE NOT has_metadata OR in_ten_seconds >= $min_metadata_connections OR cause NOT IN ('unknown', 'ended before any answer')
    GROUP BY client_id, client_address, broker, has_metadata, cause, first_seen_us // 300000000
), working AS (
    SELECT c.client_id, c.client_address, count(*) AS connections, count(CASE WHEN w.work > 0 THEN 1 END) AS with_more,
        count(CASE WHEN c.closed = 'end of capture' OR coalesce(c.closed_us, c.last_seen_us) - c.first_seen_us > $max_seconds * 1000000 THEN 1 END)
            AS lasting
    FROM client_connections AS c
    JOIN worked AS w ON w.connection_id = c.connection_id
    WHERE w.work > 0 OR w.has_metadata
    GROUP BY c.client_id, c.client_address
)
SELECT p.*, CASE WHEN p.has_metadata OR p.cause = 'waits less than the way takes' THEN w.with_more ELSE w.connections END AS connections_that_worked
FROM periods AS p
LEFT JOIN working AS w ON w.client_id IS NOT DISTINCT FROM p.client_id AND w.client_address = p.client_address
WHERE NOT p.has_metadata OR p.cause NOT IN ('unknown', 'ended before any answer') OR (w.with_more = 0 AND w.lasting * 2 < p.connections)
