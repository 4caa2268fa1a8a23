/*
meaning: >-
  From when to when (since_us, until_us) the answers to one connection said the same of a partition's leader and replicas: until the last
  answer that describes its topic before one that differs.
stored: true
*/
WITH states AS (
  SELECT *, lead(exchange) OVER (PARTITION BY connection_id, topic, partition ORDER BY exchange) AS next_exchange
  FROM partition_states
  WHERE replicas IS NOT NULL AND topic IS NOT NULL AND seen_at IS NOT NULL
), described AS (
  SELECT e.connection_id, e.exchange, epoch_us(e.response_at) AS at_us, d.topic
  FROM exchanges AS e CROSS JOIN unnest(e.described_topics) AS d(topic)
  WHERE e.api_key IN (3, 75) AND e.response_at IS NOT NULL
)
SELECT s.connection_id, s.exchange, c.client_id, c.client_address, c.software, c.cluster, s.seen_at, epoch_us(s.seen_at) AS since_us,
  greatest(epoch_us(s.seen_at), coalesce(d.at_us, 0)) AS until_us,
  s.topic, s.partition, s.leader_id, s.leader_epoch, s.replicas, s.in_sync_replicas, s.offline_replicas
FROM states AS s
JOIN client_connections AS c ON c.connection_id = s.connection_id
ASOF LEFT JOIN described AS d ON d.connection_id = s.connection_id AND d.topic = s.topic
  AND d.exchange < coalesce(s.next_exchange, 9223372036854775807)
