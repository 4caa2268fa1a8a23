/*
meaning: >-
  Who writes to and reads from each topic, by client id; of a consumer the groups that it commits the topic for or is assigned it by, else
  all that it is a member of.
*/
WITH moved AS (
  SELECT k.cluster, coalesce(a.client_id, '') AS client, c.client_address, coalesce(a.topic, a.topic_id) AS topic, a.direction,
    sum(a.records) AS records
  FROM topic_activity a
  JOIN connections c ON c.connection_id = a.connection_id
  JOIN connection_clusters k ON k.connection_id = a.connection_id
  GROUP BY k.cluster, coalesce(a.client_id, ''), c.client_address, coalesce(a.topic, a.topic_id), a.direction
), members AS (
  SELECT k.cluster, coalesce(m.client_id, '') AS client, c.client_address, m.topic, m.group_id
  FROM (
    SELECT connection_id, client_id, coalesce(topic, topic_id) AS topic, group_id FROM offsets
    WHERE kind = 'commit' AND group_id IS NOT NULL
    UNION ALL
    SELECT connection_id, client_id, regexp_replace(assigned, '-[0-9]+$', '', 'g') AS topic, group_id
    FROM group_events CROSS JOIN unnest(assignment) AS assigned(assigned)
    WHERE event IN ('join', 'sync', 'heartbeat')
    UNION ALL
    SELECT connection_id, client_id, CAST(NULL AS VARCHAR) AS topic, group_id FROM group_events
    WHERE event IN ('join', 'sync', 'heartbeat')
  ) AS m
  JOIN connections c ON c.connection_id = m.connection_id
  JOIN connection_clusters k ON k.connection_id = m.connection_id
), of_topics AS (
  SELECT cluster, client, client_address, topic, sorted_set(group_id) AS group_ids
  FROM members WHERE topic IS NOT NULL
  GROUP BY cluster, client, client_address, topic
), of_clients AS (
  SELECT cluster, client, client_address, sorted_set(group_id) AS group_ids
  FROM members
  GROUP BY cluster, client, client_address
), parties AS (
  SELECT m.cluster, m.direction, m.topic, m.records, m.client,
    CASE WHEN m.direction = 'fetch' THEN coalesce(t.group_ids, c.group_ids) END AS group_ids
  FROM moved m
  LEFT JOIN of_topics t ON t.cluster = m.cluster AND t.client = m.client AND t.client_address = m.client_address AND t.topic = m.topic
  LEFT JOIN of_clients c ON c.cluster = m.cluster AND c.client = m.client AND c.client_address = m.client_address
  WHERE m.topic IS NOT NULL
), told AS (
  SELECT cluster, direction, topic, records,
    CASE
      WHEN group_ids IS NULL THEN client
      WHEN len(group_ids) = 1 THEN 'group ' || array_to_string(group_ids, '')
      WHEN len(group_ids) <= 3 THEN 'groups ' || array_to_string(group_ids, ', ')
      ELSE 'groups ' || array_to_string(group_ids[1:2], ', ') || ' and ' || CAST(len(group_ids) - 2 AS VARCHAR) || ' more'
    END AS party
  FROM parties
)
SELECT cluster, direction, party, topic, sum(records) AS records
FROM told
GROUP BY cluster, direction, party, topic
ORDER BY records DESC, cluster, direction, party, topic
LIMIT 500
