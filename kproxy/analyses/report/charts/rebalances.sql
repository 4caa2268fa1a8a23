/*
meaning: >-
  What members of groups did, and when: of the forty members with the most errors, leaves and joins, up to 4,000 events, those first that
  say most; and how many members and events there are (all_members, all_events).
*/
WITH events AS (
  SELECT cluster, group_key, group_id,
    coalesce(client_id, '') AS client,
    coalesce(member_id, '') AS member_id,
    coalesce(nullif(member_id, ''), client_id, '') AS member,
    epoch_us(seen_at) // 1000 AS at_ms,
    CASE
      WHEN event = 'leave' THEN 'leave'
      WHEN coalesce(error_code, 0) NOT IN (0, 79) THEN 'error'
      ELSE event
    END AS event,
    response_generation AS generation
  FROM keyed_group_events
  WHERE seen_at IS NOT NULL AND event IN ('join', 'sync', 'assign', 'leave', 'heartbeat')
), members AS (
  SELECT group_key, member,
    row_number() OVER (ORDER BY count(CASE WHEN event IN ('error', 'leave') THEN 1 END) DESC, count(CASE WHEN event = 'join' THEN 1 END) DESC,
      count(*) DESC, group_key, member) AS place,
    count(*) OVER () AS all_members,
    sum(count(*)) OVER () AS all_events
  FROM events
  GROUP BY group_key, member
), ranked AS (
  SELECT e.*, m.all_members, m.all_events,
    row_number() OVER (ORDER BY CASE e.event WHEN 'error' THEN 0 WHEN 'leave' THEN 0 WHEN 'join' THEN 1 WHEN 'heartbeat' THEN 3 ELSE 2 END,
      e.at_ms, e.group_key, e.member_id, e.event, e.generation) AS place
  FROM events e
  JOIN members m ON m.group_key = e.group_key AND m.member = e.member
  WHERE m.place <= 40
)
SELECT cluster, group_id, client, member_id, at_ms, event, generation, all_members, CAST(all_events AS BIGINT) AS all_events
FROM ranked
WHERE place <= 4000
ORDER BY at_ms, group_key, member_id, event
