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
WITH batches AS (
  SELECT k.cluster, c.client,
    CASE WHEN b.direction = 'produce' THEN 'produce' WHEN c.role = 'broker' THEN 'replicate' ELSE 'fetch' END AS direction,
    coalesce(b.topic, b.topic_id) AS topic,
    sum(CASE WHEN b.direction = 'produce' AND b.error_code <> 0 THEN 0 ELSE b.count END) AS records,
    sum(CASE WHEN b.direction = 'produce' AND b.error_code <> 0 THEN b.count ELSE 0 END) AS refused_records,
    sum(b.size) AS bytes,
    min(epoch_us(b.seen_at)) AS first_micros, max(epoch_us(b.seen_at)) AS last_micros
  FROM record_batches b
  JOIN clients c ON c.connection_id = b.connection_id
  JOIN connection_clusters k ON k.connection_id = b.connection_id
  WHERE NOT coalesce(b.is_control, false)
  GROUP BY k.cluster, c.client, CASE WHEN b.direction = 'produce' THEN 'produce' WHEN c.role = 'broker' THEN 'replicate' ELSE 'fetch' END,
    coalesce(b.topic, b.topic_id)
), fetches AS (
  SELECT k.cluster, c.client,
    CASE WHEN c.role = 'broker' OR o.replica_id >= 0 THEN 'replicate' ELSE 'fetch' END AS direction,
    coalesce(o.topic, o.topic_id) AS topic,
    min(epoch_us(o.seen_at)) AS first_micros, max(epoch_us(o.seen_at)) AS last_micros
  FROM offsets o
  JOIN clients c ON c.connection_id = o.connection_id
  JOIN connection_clusters k ON k.connection_id = o.connection_id
  WHERE o.kind = 'fetch' AND coalesce(o.error_code, 0) = 0
  GROUP BY k.cluster, c.client, CASE WHEN c.role = 'broker' OR o.replica_id >= 0 THEN 'replicate' ELSE 'fetch' END, coalesce(o.topic, o.topic_id)
), named AS (  -- topics in requests whose rows are not in the other tables
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
  ) e
  JOIN clients c ON c.connection_id = e.connection_id
  JOIN connection_clusters k ON k.connection_id = e.connection_id
  WHERE c.role = 'client'
    AND (
      e.api_key IN (15, 16, 19, 20, 21, 29, 30, 31, 32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
        55, 57, 61, 64, 65, 66, 69, 74, 77, 80, 81, 89, 90, 91, 92)
      OR (e.api_key = 78 AND topic IS NOT NULL)
    )
), administered AS (
  SELECT cluster, client, direction, topic,
    sorted_set(CASE WHEN direction = 'administer' THEN api_name END) AS apis,
    sorted_set(CASE WHEN direction = 'administer' THEN group_id END) AS group_ids,
    min(micros) AS first_micros, max(micros) AS last_micros
  FROM named
  GROUP BY cluster, client, direction, topic
), memberships AS (
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
), groups AS (
  SELECT cluster, client, topic,
    sorted_set(group_id) AS group_ids,
    min(micros) AS first_micros, max(micros) AS last_micros,
    max(is_member) AS is_member
  FROM memberships
  GROUP BY cluster, client, topic
), others AS (  -- members of groups that distribute something other than partitions
  SELECT k.cluster, c.client,
    sorted_set(e.group_id) AS group_ids,
    min(epoch_us(e.seen_at)) AS first_micros, max(epoch_us(e.seen_at)) AS last_micros
  FROM group_events e
  JOIN clients c ON c.connection_id = e.connection_id
  JOIN connection_clusters k ON k.connection_id = e.connection_id
  WHERE e.event IN ('join', 'sync') AND e.protocol_type <> 'consumer' AND e.protocol_type <> '' AND c.role = 'client'
  GROUP BY k.cluster, c.client
), described AS (
  SELECT k.cluster, topic, min(epoch_us(response_at)) AS first_micros, max(epoch_us(response_at)) AS last_micros
  FROM (SELECT connection_id, response_at, topic FROM exchanges CROSS JOIN unnest(described_topics) AS described(topic)) d
  JOIN connection_clusters k ON k.connection_id = d.connection_id
  WHERE NOT starts_with(topic, '__')
  GROUP BY k.cluster, topic
), every AS (
  SELECT cluster, client, direction, topic, records, refused_records, bytes, first_micros, last_micros FROM batches
  UNION ALL
  SELECT cluster, client, direction, topic, 0, 0, 0, first_micros, last_micros FROM fetches
  UNION ALL
  SELECT cluster, client, direction, topic, 0, 0, 0, first_micros, last_micros FROM administered
  UNION ALL
  SELECT cluster, client, 'subscribe', topic, 0, 0, 0, first_micros, last_micros FROM groups WHERE is_member = 1
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
LEFT JOIN groups g ON g.cluster = u.cluster AND g.client = u.client AND g.topic = u.topic
LEFT JOIN others j ON j.cluster = u.cluster AND j.client = u.client AND u.direction = 'join'
LEFT JOIN administered a
  ON a.cluster = u.cluster AND a.client = u.client AND a.direction = u.direction AND u.direction = 'administer' AND coalesce(a.topic, '') = coalesce(u.topic, '')
WHERE (u.direction <> 'none' OR u.rows_of_it = 1)
  AND (u.direction <> 'subscribe' OR u.is_fetched_by_it = 0)
  AND ($topic = '' OR u.topic = $topic)
ORDER BY u.records DESC, u.direction, u.topic, w.client_id, w.principal, w.software, w.software_version, u.cluster
