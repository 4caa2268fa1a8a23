/*
meaning: >-
  Which client administers which topic, by which APIs, or reads it by share groups; group_ids are the groups that it administers.
stored: true
*/
WITH named AS (  -- topics in requests whose rows are not in the other tables
  SELECT k.cluster, c.client,
    CASE
      WHEN e.api_key = 78 THEN 'fetch'
      ELSE 'administer'
    END AS direction,
    topic, e.api_name, e.group_id,
    epoch_us(coalesce(e.request_at, e.response_at)) AS micros
  FROM (
    SELECT connection_id, api_key, api_name, group_id, request_at, response_at, topic
    FROM exchanges
    CROSS JOIN unnest(CASE WHEN len(topics) > 0 THEN topics ELSE [CAST(NULL AS VARCHAR)] END) AS named(topic)
    WHERE api_key IN (15, 16, 19, 20, 21, 29, 30, 31, 32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
      55, 57, 61, 64, 65, 66, 69, 74, 77, 78, 80, 81, 89, 90, 91, 92)
  ) e
  JOIN clients c ON c.connection_id = e.connection_id
  JOIN connection_clusters k ON k.connection_id = e.connection_id
  WHERE c.role = 'client' AND (e.api_key <> 78 OR topic IS NOT NULL)
)
SELECT cluster, client, direction, topic,
  sorted_set(CASE WHEN direction = 'administer' THEN api_name END) AS apis,
  sorted_set(CASE WHEN direction = 'administer' THEN group_id END) AS group_ids,
  min(micros) AS first_micros, max(micros) AS last_micros
FROM named
GROUP BY cluster, client, direction, topic
