/*
meaning: >-
  The lives of each group, with its cluster, and from when to when (since_micros, until_micros; the last has no end). A group that was
  deleted, or expired, and is used again counts its generations from the beginning: that is another life. group_key is a text of
  cluster, group and life, the key in the other views of groups.
stored: true
*/
WITH events AS (
  SELECT c.cluster, e.group_id, e.event, e.member_id, e.error_code, e.response_generation, e.connection_id, e.exchange,
    epoch_us(coalesce(e.request_at, e.seen_at)) AS asked, epoch_us(e.seen_at) AS known
  FROM group_events e JOIN connection_clusters c ON c.connection_id = e.connection_id
), joins AS (
  SELECT cluster, group_id, member_id, asked, known, response_generation,
    lag(response_generation) OVER (PARTITION BY cluster, group_id ORDER BY known, response_generation, connection_id, exchange)
      AS generation_before,
    lag(known) OVER (PARTITION BY cluster, group_id ORDER BY known, response_generation, connection_id, exchange) AS known_before
  FROM events WHERE event = 'join' AND error_code = 0 AND response_generation IS NOT NULL
), starts AS (
  -- a life begins with the first attempt to join of the member that began it
  SELECT j.cluster, j.group_id, min(a.asked) AS since_micros
  FROM joins j
  JOIN events a ON a.cluster = j.cluster AND a.group_id = j.group_id AND a.event = 'join' AND a.member_id = j.member_id
    AND a.asked > j.known_before AND a.asked <= j.asked
  WHERE j.response_generation < j.generation_before
  GROUP BY j.cluster, j.group_id, j.known
  UNION
  SELECT cluster, group_id, known + 1 AS since_micros FROM events WHERE event = 'delete' AND error_code = 0
  UNION
  SELECT DISTINCT c.cluster, e.group_id, CAST(0 AS BIGINT) AS since_micros
  FROM (
    SELECT connection_id, group_id FROM exchanges WHERE group_id IS NOT NULL
    UNION
    SELECT connection_id, group_id FROM group_events
  ) e JOIN connection_clusters c ON c.connection_id = e.connection_id
), numbered AS (
  SELECT cluster, group_id, since_micros,
    lead(since_micros) OVER (PARTITION BY cluster, group_id ORDER BY since_micros) AS until_micros,
    row_number() OVER (PARTITION BY cluster, group_id ORDER BY since_micros) AS life
  FROM starts
)
SELECT cluster, group_id, since_micros, until_micros,
  cluster || ' ' || group_id || CASE WHEN life > 1 THEN ' life ' || CAST(life AS VARCHAR) ELSE '' END AS group_key
FROM numbered
