/*
id: map
title: Who produces to, consumes from and administers what
severity: info
meaning: >-
  Which client produces to, fetches from or administers which topic. Records are those that the broker accepted, also of aborted transactions.
columns:
  client_id: ""
  direction: "fetch: also an idle consumer; replicate: a broker; subscribe: a group member that was assigned the topic but was not seen to fetch; join: a member of a group that is not one of consumers, such as Kafka Connect's workers; none: only Metadata names the topic"
  topic: ""
  groups: groups by which the client reads the topic, that it joins or administers
  records: records accepted or fetched
  bytes: bytes of the record batches on the wire
  topic_use: what all clients together do with the topic, as far as seen here
  role: "broker: traffic of brokers among themselves"
  software: ""
  software_version: ""
  addresses: client addresses
  records_per_second: records per second of the time for which its cluster was captured
  first_micros: ""
  last_micros: ""
  refused_records: records that the broker refused
  cluster: its id, else the first address of its brokers
  principal: ""
  inferred: ""
  apis: APIs by which it administers
  bytes_per_second: bytes per second of the time for which its cluster was captured
action: A topic that is only written or untouched for as long as its retention may not be needed; ask its owner.
parameters:
  topic: {default: "", meaning: Show only this topic.}
sampled: Other reads and writes may be among the exchanges that are missing.
verdict: "{count topic:topic/topics} seen[{count client_id where role=client:?}; used or administered by {count client_id where role=client:client id/client ids}][ and {count client_id where role=broker} of brokers][{records:?}. {most records} records: {client_id}, {records:,} ({direction} {topic})]"
order: 10
*/
WITH identified AS (
  SELECT c.connection_id, k.cluster, c.client, c.role
  FROM clients c
  JOIN connection_clusters k ON k.connection_id = c.connection_id
), batches AS (
  SELECT c.cluster, c.client,
    CASE WHEN b.direction = 'produce' THEN 'produce' WHEN c.role = 'broker' THEN 'replicate' ELSE 'fetch' END AS direction,
    coalesce(b.topic, b.topic_id) AS topic,
    sum(CASE WHEN b.direction = 'produce' AND b.error_code <> 0 THEN 0 ELSE b.count END) AS records,
    sum(CASE WHEN b.direction = 'produce' AND b.error_code <> 0 THEN b.count ELSE 0 END) AS refused_records,
    sum(b.size) AS bytes,
    min(epoch_us(b.seen_at)) AS first_micros, max(epoch_us(b.seen_at)) AS last_micros
  FROM record_batches b
  JOIN identified c ON c.connection_id = b.connection_id
  WHERE NOT coalesce(b.is_control, false)
  GROUP BY c.cluster, c.client, CASE WHEN b.direction = 'produce' THEN 'produce' WHEN c.role = 'broker' THEN 'replicate' ELSE 'fetch' END,
    coalesce(b.topic, b.topic_id)
), fetches AS (
  SELECT c.cluster, c.client,
    CASE WHEN c.role = 'broker' OR o.replica_id >= 0 THEN 'replicate' ELSE 'fetch' END AS direction,
    coalesce(o.topic, o.topic_id) AS topic,
    min(epoch_us(o.seen_at)) AS first_micros, max(epoch_us(o.seen_at)) AS last_micros
  FROM offsets o
  JOIN identified c ON c.connection_id = o.connection_id
  WHERE o.kind = 'fetch' AND coalesce(o.error_code, 0) = 0
  GROUP BY c.cluster, c.client, CASE WHEN c.role = 'broker' OR o.replica_id >= 0 THEN 'replicate' ELSE 'fetch' END, coalesce(o.topic, o.topic_id)
), others AS (  -- members of groups that distribute something other than partitions
  SELECT c.cluster, c.client,
    sorted_set(e.group_id) AS group_ids,
    min(epoch_us(e.seen_at)) AS first_micros, max(epoch_us(e.seen_at)) AS last_micros
  FROM group_events e
  JOIN identified c ON c.connection_id = e.connection_id
  WHERE e.event IN ('join', 'sync') AND e.protocol_type <> 'consumer' AND e.protocol_type <> '' AND c.role = 'client'
  GROUP BY c.cluster, c.client
), described AS (
  SELECT cluster, topic, min(first_micros) AS first_micros, max(last_micros) AS last_micros
  FROM (  -- most answers of a cluster list the same topics
    SELECT k.cluster, e.described_topics, min(epoch_us(e.response_at)) AS first_micros, max(epoch_us(e.response_at)) AS last_micros
    FROM exchanges e JOIN connection_clusters k ON k.connection_id = e.connection_id
    GROUP BY k.cluster, e.described_topics
  ) d CROSS JOIN unnest(described_topics) AS described(topic)
  WHERE NOT starts_with(topic, '__')
  GROUP BY cluster, topic
), every AS (
  SELECT cluster, client, direction, topic, records, refused_records, bytes, first_micros, last_micros FROM batches
  UNION ALL
  SELECT cluster, client, direction, topic, 0, 0, 0, first_micros, last_micros FROM fetches
  UNION ALL
  SELECT cluster, client, direction, topic, 0, 0, 0, first_micros, last_micros FROM administered_topics
  UNION ALL
  SELECT cluster, client, 'subscribe', topic, 0, 0, 0, first_micros, last_micros FROM group_topics WHERE is_member = 1
  UNION ALL
  SELECT cluster, client, 'join', CAST(NULL AS VARCHAR), 0, 0, 0, first_micros, last_micros FROM others
  UNION ALL
  SELECT cluster, CAST(NULL AS VARCHAR), 'none', topic, 0, 0, 0, first_micros, last_micros FROM described
), summed AS (
  SELECT cluster, client, direction, topic,
    CAST(sum(records) AS BIGINT) AS records,
    CAST(sum(refused_records) AS BIGINT) AS refused_records,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    min(first_micros) AS first_micros, max(last_micros) AS last_micros
  FROM every
  GROUP BY cluster, client, direction, topic
), used AS (
  SELECT s.*,
    max(CASE WHEN direction = 'produce' THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, topic) AS is_written,
    max(CASE WHEN direction IN ('fetch', 'subscribe') THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, topic) AS is_read,
    max(CASE WHEN direction = 'fetch' THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, client, topic) AS is_fetched_by_it,
    max(CASE WHEN direction = 'administer' THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, topic) AS is_administered,
    count(*) OVER (PARTITION BY cluster, topic) AS rows_of_it
  FROM summed s
), who AS (
  SELECT client, client_id, principal, software, software_version,
    min(inferred) AS inferred,
    CASE WHEN min(role) = 'broker' THEN 'broker' ELSE 'client' END AS role,
    sorted_set(client_address) AS addresses
  FROM clients
  GROUP BY client, client_id, principal, software, software_version
)
SELECT w.client_id, w.principal, w.software, w.software_version, w.inferred, w.role, w.addresses, u.direction, u.topic,
  CASE
    WHEN u.topic IS NULL THEN NULL
    WHEN u.is_written = 1 AND u.is_read = 1 THEN 'written and read'
    WHEN u.is_written = 1 THEN 'only written'
    WHEN u.is_read = 1 THEN 'only read'
    WHEN starts_with(u.topic, '__') THEN 'internal'
    WHEN u.is_administered = 1 THEN 'only administered'
    WHEN u.direction = 'replicate' THEN 'only replicated'
    ELSE 'untouched'
  END AS topic_use,
  CASE WHEN u.direction IN ('fetch', 'subscribe') THEN g.group_ids WHEN u.direction = 'administer' THEN a.group_ids WHEN u.direction = 'join' THEN j.group_ids
  END AS groups,
  a.apis, u.records, u.refused_records, u.bytes,
  round(u.records * 1e6 / nullif(s.micros, 0), 3) AS records_per_second,
  round(u.bytes * 1e6 / nullif(s.micros, 0), 3) AS bytes_per_second,
  u.first_micros, u.last_micros, u.cluster
FROM used u
LEFT JOIN cluster_times s ON s.cluster = u.cluster
LEFT JOIN who w ON w.client = u.client
LEFT JOIN group_topics g ON g.cluster = u.cluster AND g.client = u.client AND g.topic = u.topic
LEFT JOIN others j ON j.cluster = u.cluster AND j.client = u.client AND u.direction = 'join'
LEFT JOIN administered_topics a
  ON a.cluster = u.cluster AND a.client = u.client AND a.direction = u.direction AND u.direction = 'administer' AND coalesce(a.topic, '') = coalesce(u.topic, '')
WHERE (u.direction <> 'none' OR u.rows_of_it = 1)
  AND (u.direction <> 'subscribe' OR u.is_fetched_by_it = 0)
  AND ($topic = '' OR u.topic = $topic)
ORDER BY u.records DESC, u.direction, u.topic, w.client_id, w.principal, w.software, w.software_version, u.cluster
