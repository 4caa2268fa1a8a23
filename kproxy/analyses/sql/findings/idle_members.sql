/*
id: idle_members
title: Groups with more members than partitions
severity: info
meaning: >
  The last assignment seen of the group leaves members without a partition. They take part in each rebalance and do nothing; more of
  them do not make the group faster.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  generation: the last that was seen
  members: members of it
  idle: of those, without a partition
  partitions: partitions that were assigned
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Add partitions to the topic, or run no more members than partitions (spare ones for failover are fine).
reference: https://kafka.apache.org/documentation/#intro_consumers
parameters:
  min_idle: {default: 1, meaning: "Groups with fewer members without a partition are not listed."}
sampled: A later assignment may be among the exchanges that are missing.
needs: [client_group_events]
verdict: "{rows:group/groups} with more members than partitions. Most: {group_id}, where {idle:,} of {members:,} members have none. Add partitions, or run fewer members."
order: 50
*/
WITH assigned AS (
    SELECT
        *,
        max(generation) OVER (PARTITION BY group_key) AS last_generation
    FROM client_group_events
    WHERE event = 'assign' AND coalesce(error_code, 0) = 0 AND assignment IS NOT NULL
),
found AS (
    SELECT
        cluster,
        group_key,
        group_id,
        generation,
        max(client_id) AS client_id,
        max(client_address) AS client_address,
        max(software) AS software,
        count(DISTINCT member_id) AS members,
        count(DISTINCT CASE WHEN size(assignment) = 0 THEN member_id END) AS idle,
        CAST(sum(size(assignment)) AS BIGINT) AS partitions,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM assigned
    WHERE generation = last_generation
    GROUP BY cluster, group_key, group_id, generation
)
SELECT
    client_id,
    client_address,
    software,
    group_id,
    generation,
    members,
    idle,
    partitions,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE idle >= :min_idle AND partitions > 0
ORDER BY idle DESC, group_key
