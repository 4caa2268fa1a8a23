/*
meaning: >-
  Attempts to connect on which no byte was sent, three at least in five seconds or more, at addresses that brokers advertise or
  that serve others meanwhile: who tried, where, how often (tries), what became of it (how), and whether it harmed. Of a client
  that was served there before only SYNs without an answer count.
stored: true
*/
WITH tried AS (
    SELECT c.client_address, c.capture, c.broker AS address, c.connection_id, c.not_kafka AS how, r.broker_port AS port,
        epoch_us(r.syn_at) AS at_us, c.last_seen_us AS until_us,
        CASE WHEN c.not_kafka = 'no answer' THEN greatest(1, r.syns - 1) ELSE 1 END AS tries
    FROM client_connections AS c
    JOIN connections AS r ON r.connection_id = c.connection_id
    WHERE c.not_kafka IN ('no answer', 'refused', 'dropped') AND r.syn_at IS NOT NULL
        AND (c.not_kafka <> 'dropped' OR epoch_us(r.closed_at) - epoch_us(r.syn_ack_at) <= 1000000)
), spans AS (
    SELECT capture, client_address, address, port, min(at_us) AS since_us, max(until_us) AS until_us, bool_and(how = 'no answer') AS is_unanswered
    FROM tried
    GROUP BY capture, client_address, address, port
    HAVING sum(tries) >= 3 AND max(until_us) - min(at_us) >= 5000000
), said AS (
    SELECT DISTINCT c.capture, c.broker, c.client_address, epoch_us(e.response_at) AS at_us, text
    FROM (SELECT connection_id, response_at, unnest(advertised) AS text FROM exchanges WHERE advertised IS NOT NULL AND response_at IS NOT NULL) AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
), named AS (
    SELECT *, split_part(text, ' ', 1) AS node_id, substr(text, instr(text, ' ') + 1) AS address,
        regexp_extract(text, ':([0-9]+)$', 1) AS port, regexp_matches(text, '^-?[0-9]+ (\[.*\]|[0-9.]+):[0-9]+$') AS is_ip,
        at_us = max(at_us) OVER (PARTITION BY capture, client_address) AS is_last -- of what this client was told
    FROM said
), served AS ( -- who was answered where, and when
    SELECT capture, client_address, broker AS address, first_seen_us, last_seen_us
    FROM client_connections
    WHERE responses > 0 OR (not_kafka = 'tls' AND tls_version IS NOT NULL)
), hosts AS (
    SELECT c.capture, c.client_address,
        array_to_string(sorted_set(c.client_id), ', ') AS clients,
        CASE WHEN count(DISTINCT c.client_id) = 1 THEN max(c.client_id) END AS client_id,
        CASE WHEN count(DISTINCT c.software) = 1 THEN max(c.software) END AS software
    FROM client_connections AS c
    WHERE c.requests > 0
    GROUP BY c.capture, c.client_address
), busy AS ( -- addresses at which others were answered meanwhile
    SELECT DISTINCT s.client_address, s.address, s.since_us
    FROM spans AS s
    JOIN (
        SELECT broker, epoch_us(response_at) // 1000000 AS second, min(client_address) AS one, max(client_address) AS another
        FROM client_exchanges
        WHERE broker IN (SELECT address FROM spans WHERE is_unanswered)
        GROUP BY broker, second
    ) AS e ON e.broker = s.address AND (e.one <> s.client_address OR e.another <> s.client_address)
        AND e.second BETWEEN s.since_us // 1000000 + 2 AND s.until_us // 1000000 - 1
    WHERE s.is_unanswered
), known AS (
    SELECT s.capture, s.client_address, s.address, s.since_us, s.until_us, s.port,
        max(n.node_id) AS node_id, max(n.address) AS advertised, max_by(n.broker, n.at_us) AS broker, max(n.at_us) AS advertised_us,
        bool_and(NOT n.is_ip) AS by_port_only, bool_or(n.is_last AND n.client_address = s.client_address) AS is_believed
    FROM spans AS s
    LEFT JOIN named AS n ON n.capture = s.capture
        AND (n.address = s.address OR (NOT n.is_ip AND n.port = CAST(s.port AS VARCHAR) AND n.client_address = s.client_address))
    LEFT JOIN busy AS b ON b.client_address = s.client_address AND b.address = s.address AND b.since_us = s.since_us
    WHERE NOT EXISTS ( -- the client got as far as a request, at least: other findings say what came of it
        SELECT 1 FROM client_connections AS v
        WHERE v.capture = s.capture AND v.client_address = s.client_address AND v.broker = s.address
            AND (v.requests > 0 OR v.responses > 0 OR v.not_kafka = 'tls') AND (b.address IS NULL OR v.last_seen_us >= s.since_us))
    GROUP BY s.capture, s.client_address, s.address, s.since_us, s.until_us, s.port
), reached AS (
    SELECT k.capture, k.client_address, k.address, count(DISTINCT v.client_address) AS others
    FROM known AS k
    JOIN served AS v ON v.capture = k.capture AND v.address = k.address AND v.first_seen_us <= k.until_us AND v.last_seen_us >= k.since_us
    GROUP BY k.capture, k.client_address, k.address
), working AS (
    SELECT DISTINCT c.capture, c.client_address
    FROM exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE coalesce(e.api_key, 0) NOT IN (3, 10, 17, 18, 22, 36, 60, 71, 72) AND (e.response_at IS NOT NULL OR NOT e.expects_response)
), reaching AS ( -- from when to when others were served at an address
    SELECT capture, address, min(first_seen_us) AS since_us, max(last_seen_us) AS until_us
    FROM served
    GROUP BY capture, address
)
SELECT t.*, h.client_id, h.clients, h.software, k.node_id, k.advertised, k.broker, k.advertised_us,
    coalesce(r.others, 0) AS others, CASE WHEN w.client_address IS NOT NULL AND k.by_port_only THEN 'notice' ELSE 'warning' END AS harm
FROM tried AS t
JOIN hosts AS h ON h.capture = t.capture AND h.client_address = t.client_address
JOIN known AS k ON k.capture = t.capture AND k.client_address = t.client_address AND k.address = t.address
LEFT JOIN reached AS r ON r.capture = t.capture AND r.client_address = t.client_address AND r.address = t.address
LEFT JOIN reaching AS g ON g.capture = t.capture AND g.address = t.address
LEFT JOIN working AS w ON w.capture = t.capture AND w.client_address = t.client_address
WHERE CASE
    -- where somebody was served, a broker that restarts refuses all others for a while, and serves them after it
    WHEN g.address IS NOT NULL THEN coalesce(r.others, 0) > 0 AND t.at_us <= g.until_us AND t.until_us >= g.since_us
    -- a broker that is down is advertised for some seconds, until its session ends; some clients never ask again
    ELSE k.advertised_us >= k.since_us OR (k.is_believed AND k.until_us - k.since_us >= 20000000) END
