/*
meaning: >-
  The first request on each connection that was idle for a minute at least (idle_us) and then brought no answer, but a reset from the
  broker's address at once (how: reset), or nothing at all, while the broker answered others (how: no answer): something between them, or
  the broker's host, no longer knew the connection. waited_us is how long the client waited.
stored: true
*/
WITH unanswered AS (
  SELECT e.connection_id, min_by(e.exchange, e.request_at) AS exchange, epoch_us(min(e.request_at)) AS at_us
  FROM exchanges AS e
  WHERE e.unanswered IS NOT NULL AND e.request_at IS NOT NULL
  GROUP BY e.connection_id
), idle AS (
  SELECT u.*, c.client_id, c.client_address, c.software, c.cluster, c.broker, c.closed, c.closed_by, c.closed_us, t.until_us,
    u.at_us - (SELECT max(greatest(epoch_us(b.request_at), coalesce(epoch_us(b.response_at), 0))) FROM exchanges AS b
      WHERE b.connection_id = u.connection_id AND epoch_us(b.request_at) < u.at_us) AS idle_us
  FROM unanswered AS u
  JOIN client_connections AS c ON c.connection_id = u.connection_id AND c.gaps = 0 AND c.responses > 0
  JOIN capture_times AS t ON t.connection_id = u.connection_id
  WHERE NOT EXISTS (FROM exchanges AS b WHERE b.connection_id = u.connection_id AND epoch_us(b.response_at) >= u.at_us)
), judged AS (
  SELECT *, coalesce(closed_us, until_us) - at_us AS waited_us,
    closed = 'reset' AND closed_by = 'broker' AND closed_us BETWEEN at_us AND at_us + 2000000 AS is_reset
  FROM idle
  WHERE idle_us >= 60000000
)
SELECT *, CASE WHEN is_reset THEN 'reset' ELSE 'no answer' END AS how
FROM judged AS j
WHERE is_reset OR (closed_by IS DISTINCT FROM 'broker' AND waited_us >= 5000000 AND EXISTS (
  SELECT 1 FROM client_exchanges AS o
  WHERE o.broker = j.broker AND o.connection_id <> j.connection_id AND epoch_us(o.request_at) > j.at_us
    AND epoch_us(o.response_at) < j.at_us + j.waited_us))
