/*
meaning: >-
  By which groups a client reads or joins which topic; is_member is 1 if it was seen to be a member of one.
stored: true
*/
WITH memberships AS (
  SELECT k.cluster, c.client, m.group_id, m.topic, m.micros, m.is_member
  FROM (
    SELECT o.connection_id, o.group_id,
      coalesce(o.topic, o.topic_id) AS topic,
      epoch_us(o.seen_at) AS micros,
      CASE WHEN e.api_key = 8 AND e.generation_id >= 0 THEN 1 ELSE 0 END AS is_member -- not Admin, not a producer
    FROM offsets o
    JOIN exchanges e ON e.connection_id = o.connection_id AND e.exchange = o.exchange
    WHERE o.kind = 'commit' AND o.group_id IS NOT NULL
    UNION ALL
    SELECT connection_id, group_id, regexp_replace(assigned, '-[0-9]+$', '', 'g') AS topic, epoch_us(seen_at) AS micros, 1 AS is_member
    FROM group_events CROSS JOIN unnest(assignment) AS assigned(assigned)
    WHERE event IN ('sync', 'heartbeat', 'join') AND coalesce(group_type, '') <> 'streams'
  ) m
  JOIN clients c ON c.connection_id = m.connection_id
  JOIN connection_clusters k ON k.connection_id = m.connection_id
  WHERE c.role = 'client'
)
SELECT cluster, client, topic,
  sorted_set(group_id) AS group_ids,
  min(micros) AS first_micros, max(micros) AS last_micros,
  max(is_member) AS is_member
FROM memberships
GROUP BY cluster, client, topic
