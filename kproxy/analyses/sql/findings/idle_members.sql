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
only_if: FROM group_events WHERE event IN ('assign', 'join', 'heartbeat') HAVING count(CASE WHEN len(assignment) = 0 THEN 1 END) >= $min_idle
frame:
  group_by: [cluster, group_key, group_id, generation]
  values:
    client_id: max(client_id)
    client_address: max(client_address)
    members: count(DISTINCT member_id)
    idle: count(DISTINCT CASE WHEN len(assignment) = 0 THEN member_id END)
    partitions: CAST(sum(len(assignment)) AS BIGINT)
  having: idle >= $min_idle AND members > partitions AND partitions > 0
  order_by: idle DESC
*/
WITH assigned AS (
    SELECT *,
        max(generation) OVER (PARTITION BY group_key) AS last_generation
    FROM client_group_events AS e
    WHERE event = 'assign' AND coalesce(error_code, 0) = 0 AND assignment IS NOT NULL
        -- Kafka Streams: without a partition it has replicas in standby
        AND NOT EXISTS (SELECT 1 FROM group_events AS j WHERE j.group_id = e.group_id AND j.protocol = 'stream')
), epochs AS (
    -- KIP-848: each member learns of the group's epoch, and of its own partitions where these change
    SELECT e.*, t.until_us,
        max(e.response_generation) OVER (PARTITION BY e.group_key) AS last_generation,
        max(e.response_generation) OVER (PARTITION BY e.group_key, e.member_id) AS reached,
        max(e.at_us) OVER (PARTITION BY e.group_key) AS changed_us
    FROM client_group_events e
    JOIN capture_times t ON t.connection_id = e.connection_id
    WHERE e.group_type = 'consumer' AND e.event IN ('join', 'heartbeat') AND coalesce(e.error_code, 0) = 0 AND e.response_generation > 0
), given AS (
    SELECT *,
        row_number() OVER (PARTITION BY group_key, member_id ORDER BY at_us DESC, connection_id, exchange DESC) AS back
    FROM epochs
    -- a member that waits for what others still give up has nothing for a heartbeat or two
    WHERE assignment IS NOT NULL AND reached = last_generation AND until_us - changed_us >= 10000000
)
SELECT group_key, cluster, group_id, last_generation AS generation, client_id, client_address, software, member_id, assignment, seen_at,
    at_us, connection_id, exchange
FROM assigned
WHERE generation = last_generation
UNION ALL
SELECT group_key, cluster, group_id, last_generation AS generation, client_id, client_address, software, member_id, assignment, seen_at,
    at_us, connection_id, exchange
FROM given
WHERE back = 1
