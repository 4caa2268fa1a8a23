/*
id: idle_members
title: Groups with more members than partitions
severity: info
meaning: >
  The last assignment seen of the group leaves members without a partition. They take part in each rebalance and do nothing; more of
  them do not make the group faster.
basis:
  rests_on: the last assignment in SyncGroup or ConsumerGroupHeartbeat
  certainty: said
  wrong_if: a later assignment was not captured
columns:
  group_id: ""
  generation: the last generation in the capture
  members: its members
  idle: members without a partition
  partitions: partitions that were assigned
action: Add partitions to the topic, or run no more members than partitions (spare ones for failover are fine).
reference: https://kafka.apache.org/documentation/#intro_consumers
parameters:
  min_idle: {default: 1, meaning: "Groups with fewer members without a partition are not listed."}
sampled: A later assignment may be among the exchanges that are missing.
verdict: "{rows:group/groups} with more members than partitions. {most idle}: {group_id}, where {idle:,} of {members:,} members got no partition. Add partitions, or run fewer members."
order: 50
only_if: FROM group_events WHERE event = 'assign' HAVING count(CASE WHEN len(assignment) = 0 THEN 1 END) >= $min_idle
frame:
  group_by: [cluster, group_key, group_id, generation]
  values:
    client_id: max(client_id)
    client_address: max(client_address)
    members: count(DISTINCT member_id)
    idle: count(DISTINCT CASE WHEN len(assignment) = 0 THEN member_id END)
    partitions: CAST(sum(len(assignment)) AS BIGINT)
  having: idle >= $min_idle AND partitions > 0
  order_by: idle DESC
*/
WITH assigned AS (
    SELECT *,
        max(generation) OVER (PARTITION BY group_key) AS last_generation
    FROM client_group_events
    WHERE event = 'assign' AND coalesce(error_code, 0) = 0 AND assignment IS NOT NULL
)
SELECT *
FROM assigned
WHERE generation = last_generation
