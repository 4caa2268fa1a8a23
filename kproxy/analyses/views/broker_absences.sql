/*
meaning: >-
  The times for which a broker (client_connections.node) answered nobody for three seconds or more (from last_us to back_us, or to
  the end of its cluster's captures, until_us), after it closed two connections that were at work, or one and then refused others,
  or left requests on two connections without an answer (how). was_at_work: it had answered work of clients before.
stored: true
*/
WITH answers AS (
    SELECT cluster, node AS broker, epoch_us(response_at) AS at_us FROM client_exchanges WHERE response_at IS NOT NULL
), ends AS (
    SELECT c.cluster, max(t.until_us) AS until_us
    FROM client_connections AS c
    JOIN capture_times AS t ON t.connection_id = c.connection_id
    GROUP BY c.cluster
), at_work AS (
    SELECT connection_id, max(epoch_us(response_at)) AS at_us
    FROM client_exchanges
    WHERE api_key IN (0, 1, 8, 12, 14, 68) AND (api_key IN (0, 1) OR len(error_codes) = 0)
    GROUP BY connection_id
), closings AS ( -- connections that were at work ten seconds before
    SELECT c.cluster, c.node AS broker, c.broker AS listener, c.closed_us AS at_us, true AS was_at_work
    FROM client_connections AS c
    JOIN at_work AS w ON w.connection_id = c.connection_id
    WHERE c.closed_by = 'broker' AND c.role = 'client' AND c.closed_us - w.at_us <= 10000000
), closings_and_refusals AS (
    SELECT * FROM closings
    UNION ALL
    SELECT cluster, node, broker, closed_us, false
    FROM client_connections
    WHERE not_kafka = 'refused' AND broker IN (SELECT listener FROM closings) -- another of its listeners may never have been there
), marked_closings AS (
    SELECT *, CASE WHEN at_us - lag(at_us) OVER (PARTITION BY cluster, broker ORDER BY at_us) <= 3000000 THEN 0 ELSE 1 END AS begins
    FROM closings_and_refusals
), numbered_closings AS (
    SELECT *, sum(begins) OVER (PARTITION BY cluster, broker ORDER BY at_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
    FROM marked_closings
), closed AS (
    SELECT cluster, broker, 'closed its connections' AS how,
        min(CASE WHEN was_at_work THEN at_us END) AS went_us, max(CASE WHEN was_at_work THEN at_us END) AS last_us
    FROM numbered_closings
    GROUP BY cluster, broker, number
    HAVING count(*) >= 2 AND bool_or(was_at_work)
), silences AS (
    SELECT a.cluster, a.broker, a.at_us AS from_us,
        coalesce(lead(a.at_us) OVER (PARTITION BY a.cluster, a.broker ORDER BY a.at_us), e.until_us) AS to_us
    FROM answers AS a
    JOIN ends AS e ON e.cluster = a.cluster
), pending AS ( -- what a broker that works would have answered by then
    SELECT e.cluster, e.node AS broker, e.connection_id, e.at_us + CAST(coalesce(e.max_wait_ms, 0) AS BIGINT) * 1000 AS due_us,
        coalesce(epoch_us(e.response_at), 9000000000000000000) AS answered_us,
        e.api_key <> 0 OR e.acks = 1 AS is_own_work,
        -- acks=all, a commit and transactions wait for other brokers, and what was sent behind them does, too
        coalesce(max(CASE WHEN e.acks = -1 OR e.api_key IN (8, 22, 24, 25, 26, 28) THEN coalesce(epoch_us(e.response_at), 9000000000000000000) END) OVER (
            PARTITION BY e.connection_id ORDER BY e.exchange) > e.at_us, false) AS is_behind
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE e.request_at IS NOT NULL AND e.expects_response AND e.api_key NOT IN (11, 14, 78) AND c.gaps = 0 AND c.role = 'client'
), silent AS (
    SELECT s.cluster, s.broker, 'stopped answering' AS how, s.from_us AS went_us, s.from_us AS last_us, bool_or(NOT p.is_behind) AS is_proven
    FROM silences AS s
    JOIN pending AS p ON p.cluster = s.cluster AND p.broker = s.broker
        AND p.due_us BETWEEN s.from_us - 500000 AND s.to_us - 3000000 AND p.answered_us >= s.to_us
    WHERE s.to_us - s.from_us >= 3000000
        AND NOT EXISTS (SELECT 1 FROM clock_jumps AS j WHERE j.cluster = s.cluster
            AND least(j.before_us, j.at_us) < s.to_us AND greatest(j.before_us, j.at_us) > s.from_us)
    GROUP BY s.cluster, s.broker, s.from_us
    HAVING count(DISTINCT p.connection_id) >= 2 AND bool_or(p.is_own_work)
), went AS (
    SELECT * FROM closed
    UNION ALL
    SELECT s.* EXCLUDE (is_proven) FROM silent AS s
    WHERE NOT EXISTS (SELECT 1 FROM closed AS c WHERE c.cluster = s.cluster AND (c.broker = s.broker OR NOT s.is_proven) AND abs(c.went_us - s.went_us) < 60000000)
), back AS (
    SELECT w.cluster, w.broker, w.how, w.went_us, w.last_us, min(a.at_us) AS back_us
    FROM went AS w
    LEFT JOIN answers AS a ON a.cluster = w.cluster AND a.broker = w.broker AND a.at_us > w.last_us
    GROUP BY w.cluster, w.broker, w.how, w.went_us, w.last_us
)
SELECT b.*, e.until_us, coalesce(f.at_us <= b.went_us, false) AS was_at_work
FROM back AS b
JOIN ends AS e ON e.cluster = b.cluster
LEFT JOIN (
    SELECT cluster, node AS broker, min(epoch_us(response_at)) AS at_us
    FROM client_exchanges
    WHERE api_key IN (0, 1, 8, 12, 14, 68)
    GROUP BY cluster, node
) AS f ON f.cluster = b.cluster AND f.broker = b.broker
WHERE coalesce(b.back_us, e.until_us) - b.last_us >= 3000000
