/*
meaning: >-
  Who writes to and reads from each topic, by client id; of a consumer the group that it commits for or is a member of.
*/
WITH moved AS (
  SELECT k.cluster, coalesce(client_id, '') AS client, coalesce(topic, topic_id) AS topic, direction, sum(records) AS records
  FROM topic_activity a JOIN connection_clusters k ON k.connection_id = a.connection_id
  GROUP BY k.cluster, coalesce(client_id, ''), coalesce(topic, topic_id), direction
),
members AS (
  SELECT cluster, coalesce(client_id, '') AS client, min(group_id) AS group_id
  FROM (
    SELECT k.cluster, client_id, group_id FROM offsets o JOIN connection_clusters k ON k.connection_id = o.connection_id
    WHERE kind = 'commit' AND group_id IS NOT NULL
    UNION ALL
    SELECT k.cluster, client_id, group_id FROM group_events g JOIN connection_clusters k ON k.connection_id = g.connection_id
    WHERE event IN ('join', 'sync', 'heartbeat')
  ) AS both
  GROUP BY cluster, coalesce(client_id, '')
)
SELECT
  m.cluster,
  m.direction,
  CASE WHEN m.direction = 'fetch' AND g.group_id IS NOT NULL THEN concat('group ', g.group_id) ELSE m.client END AS party,
  m.topic,
  sum(m.records) AS records
FROM moved m
LEFT JOIN members g ON g.cluster = m.cluster AND g.client = m.client
WHERE m.topic IS NOT NULL
GROUP BY m.cluster, m.direction, CASE WHEN m.direction = 'fetch' AND g.group_id IS NOT NULL THEN concat('group ', g.group_id) ELSE m.client END, m.topic
ORDER BY records DESC, m.cluster, m.direction, party, m.topic
LIMIT 500
