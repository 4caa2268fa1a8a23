/*
meaning: Each row of group_events with the cluster, and with the group_key of the life of the group that it belongs to (group_lives).
*/
SELECT e.*, l.cluster, l.group_key
FROM group_events e
JOIN connection_clusters c ON c.connection_id = e.connection_id
JOIN group_lives l ON l.cluster = c.cluster AND l.group_id = e.group_id
  AND epoch_us(coalesce(e.request_at, e.seen_at)) >= l.since_micros
  AND (l.until_micros IS NULL OR epoch_us(coalesce(e.request_at, e.seen_at)) < l.until_micros)
