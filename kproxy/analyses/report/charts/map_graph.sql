/*
meaning: >-
  Who writes to and reads from each topic, by client id; of a consumer the group that it commits for or is a member of.
*/
WITH moved AS (
  SELECT coalesce(client_id, '') AS client, coalesce(topic, topic_id) AS topic, direction, sum(records) AS records
  FROM topic_activity
  GROUP BY coalesce(client_id, ''), coalesce(topic, topic_id), direction
),
members AS (
  SELECT coalesce(client_id, '') AS client, min(group_id) AS group_id
  FROM (
    SELECT client_id, group_id FROM offsets WHERE kind = 'commit' AND group_id IS NOT NULL
    UNION ALL
    SELECT client_id, group_id FROM group_events WHERE event IN ('join', 'sync', 'heartbeat')
  ) AS both
  GROUP BY coalesce(client_id, '')
)
SELECT
  m.direction,
  CASE WHEN m.direction = 'fetch' AND g.group_id IS NOT NULL THEN concat('group ', g.group_id) ELSE m.client END AS party,
  m.topic,
  sum(m.records) AS records
FROM moved m
LEFT JOIN members g ON g.client = m.client
WHERE m.topic IS NOT NULL
GROUP BY m.direction, CASE WHEN m.direction = 'fetch' AND g.group_id IS NOT NULL THEN concat('group ', g.group_id) ELSE m.client END, m.topic
ORDER BY records DESC, m.direction, party, m.topic
LIMIT 500
