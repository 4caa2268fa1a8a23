/*
meaning: >-
  Where the clock of a capture was set: a request on a connection (at_us) and the last one before it (before_us). Back: it came
  later and has a time that is a second or more earlier. Forward: for three seconds no request and no answer of the cluster has a
  time, then all go on as before. A broker that stands still is something else: clients go on to ask it, and these requests wait.
stored: true
*/
WITH asked AS (
    SELECT client_id, client_address, software, cluster, connection_id, exchange, seen_at, at_us, max_wait_ms, api_key, expects_response,
        epoch_us(response_at) AS answered_us,
        lag(at_us) OVER (PARTITION BY connection_id ORDER BY exchange) AS before_us,
        lag(at_us, 5) OVER (PARTITION BY connection_id ORDER BY exchange) AS five_before_us
    FROM client_exchanges
    WHERE request_at IS NOT NULL
), late AS (  -- answers that came three seconds after they were due
    SELECT cluster, connection_id, at_us, coalesce(max_wait_ms, 0) > 0 AS waits, at_us + 1000 * coalesce(max_wait_ms, 0)::BIGINT AS due_us, answered_us
    FROM asked
    WHERE api_key NOT IN (11, 14) AND answered_us - at_us >= 1000 * coalesce(max_wait_ms, 0)::BIGINT + 3000000
), around AS (
    SELECT cluster, min(at_us) - 1000000 AS since_us, max(answered_us) AS until_us FROM late GROUP BY cluster
), times AS (
    SELECT a.cluster, a.at_us, NULL AS answered_us
    FROM asked AS a JOIN around AS r ON r.cluster = a.cluster AND a.at_us BETWEEN r.since_us AND r.until_us
    UNION ALL
    SELECT a.cluster, a.answered_us, a.answered_us
    FROM asked AS a JOIN around AS r ON r.cluster = a.cluster AND a.answered_us BETWEEN r.since_us AND r.until_us
), silences AS (  -- right after an answer: a broker that stands still is asked for a while before all wait for it
    SELECT cluster, before_us AS from_us, at_us AS to_us
    FROM (
        SELECT cluster, at_us, lag(at_us) OVER before AS before_us,
            max(answered_us) OVER (before ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS answered_us
        FROM times
        WINDOW before AS (PARTITION BY cluster ORDER BY at_us)
    ) AS ordered
    WHERE at_us - before_us >= 3000000 AND before_us - answered_us <= 500000
), pending AS (  -- what the broker ought to have answered in the silence, and did after it
    SELECT s.cluster, s.from_us, s.to_us, l.connection_id, l.waits, l.due_us < s.from_us - 300000 AS was_late
    FROM silences AS s
    JOIN late AS l ON l.cluster = s.cluster AND l.at_us <= s.from_us AND l.answered_us >= s.to_us AND l.due_us <= s.to_us - 2000000
), steady AS (  -- connections with nothing to wait for, on which clients ought to have asked
    SELECT s.from_us AS silent_us, a.*
    FROM silences AS s
    JOIN asked AS a ON a.cluster = s.cluster AND a.before_us <= s.from_us AND a.at_us >= s.to_us AND s.from_us - a.five_before_us <= s.to_us - s.from_us
    WHERE a.connection_id NOT IN (SELECT connection_id FROM pending)
), forward AS (
    SELECT p.cluster, p.from_us
    FROM pending AS p
    GROUP BY p.cluster, p.from_us
    HAVING NOT bool_or(was_late) AND count(DISTINCT CASE WHEN NOT waits THEN p.connection_id END) <= (
        SELECT 2 * nullif(count(*), 0) FROM steady AS s WHERE s.cluster = p.cluster AND s.silent_us = p.from_us)
)
SELECT client_id, client_address, software, cluster, connection_id, exchange, seen_at, at_us, before_us, 'back' AS direction
FROM asked
WHERE before_us - at_us >= 1000000
UNION ALL
SELECT s.client_id, s.client_address, s.software, s.cluster, s.connection_id, s.exchange, s.seen_at, s.at_us, s.before_us, 'forward'
FROM steady AS s
JOIN forward AS f ON f.cluster = s.cluster AND f.from_us = s.silent_us
