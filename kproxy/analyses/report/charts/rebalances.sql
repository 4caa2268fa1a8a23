/*
meaning: What the members of each group did, and when.
*/
SELECT
  cluster,
  group_id,
  coalesce(client_id, '') AS client,
  coalesce(member_id, '') AS member_id,
  unix_micros(at) DIV 1000 AS at_ms,
  CASE
    WHEN event = 'leave' THEN 'leave'
    WHEN coalesce(error_code, 0) NOT IN (0, 79) THEN 'error'
    ELSE event
  END AS event,
  response_generation AS generation
FROM keyed_group_events
WHERE at IS NOT NULL AND event IN ('join', 'sync', 'assign', 'leave', 'heartbeat')
ORDER BY at_ms, group_key, member_id, event
LIMIT 4000
