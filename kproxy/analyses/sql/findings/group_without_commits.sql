/*
id: group_without_commits
title: Groups that read and never commit
severity: warning
meaning: >
  Members of the group fetched records for a good while, and no commit of the group was seen. After a restart they begin where
  auto.offset.reset says: everything again, or nothing of what came meanwhile. Groups that keep their offsets elsewhere (Flink, some
  connectors) are right to do so.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  records: that the client fetched
  seconds: for which it fetched as a member
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set enable.auto.commit=true or commit in the application; where offsets are kept elsewhere on purpose, leave it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_enable.auto.commit
parameters:
  min_seconds: {default: 60, meaning: "Groups seen for less time are not listed; the default commit interval is 5 s."}
  min_records: {default: 1000, meaning: "Groups whose members fetched fewer records are not listed."}
sampled: A commit of the group may be among the exchanges that are missing.
needs: [client_group_events, client_exchanges]
verdict: "{count group_id:group/groups} without a commit. Most: {client_id} at {client_address} fetched {records:,} records for {group_id} in {seconds:,} s. A restart begins anew: turn auto commit on, or commit in the application."
order: 27
*/
WITH members AS (
    SELECT
        cluster,
        group_id,
        client_id,
        client_address,
        max(software) AS software,
        min(at_us) AS joined_us,
        min(at) AS joined_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_group_events
    WHERE event IN ('join', 'sync', 'heartbeat') AND group_type IN ('classic', 'consumer') AND coalesce(error_code, 0) = 0
        AND coalesce(protocol_type, 'consumer') = 'consumer'
    GROUP BY cluster, group_id, client_id, client_address
),
committed AS (
    SELECT DISTINCT cluster, group_id
    FROM client_exchanges
    WHERE api_key IN (8, 28) AND group_id IS NOT NULL
),
fetched AS (
    SELECT
        client_id,
        client_address,
        cluster,
        CAST(sum(records) AS BIGINT) AS records,
        min(at_us) AS first_us,
        max(at_us) AS last_us,
        min(at) AS first_at,
        max(at) AS last_at
    FROM client_exchanges
    WHERE api_key = 1 AND coalesce(replica_id, -1) < 0
    GROUP BY client_id, client_address, cluster
)
SELECT
    m.client_id,
    m.client_address,
    m.software,
    m.group_id,
    f.records,
    (f.last_us - greatest(f.first_us, m.joined_us)) DIV 1000000 AS seconds,
    m.cluster,
    least(f.first_at, m.joined_at) AS first_at,
    f.last_at,
    m.example.connection_id AS connection_id,
    m.example.exchange AS exchange
FROM members AS m
JOIN fetched AS f ON f.client_id <=> m.client_id AND f.client_address = m.client_address AND f.cluster = m.cluster
LEFT JOIN committed AS c ON c.cluster = m.cluster AND c.group_id = m.group_id
WHERE c.group_id IS NULL
    AND f.records >= :min_records
    AND f.last_us - greatest(f.first_us, m.joined_us) >= :min_seconds * 1000000
ORDER BY records DESC, group_id, client_id, client_address, cluster
