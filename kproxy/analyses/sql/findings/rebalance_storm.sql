/*
id: rebalance_storm
title: Groups that rebalance again and again
severity: critical
meaning: >
  The group began generation after generation within a few minutes. During each rebalance of the eager protocol nobody consumes;
  members that are too slow to keep up are thrown out, which begins the next one.
columns:
  severity: critical from three times min_rebalances generations on, else warning
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  group_type: classic, consumer (KIP-848), share or streams
  generations: generations, or epochs, that were formed in the period
  members: different member ids in the period
  addresses: ""
  seconds: length of the storm
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  See the analysis rebalances for who caused each; usual causes are max.poll.interval.ms, crashing members, rolling restarts without
  group.instance.id, and eager assignors (use CooperativeStickyAssignor or group.protocol=consumer).
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_rebalances: {default: 10, meaning: "Groups with fewer new generations within the period are not listed."}
  period_seconds: {default: 300, meaning: "The period."}
needs: [client_group_events]
verdict: "{rows:group rebalances/groups rebalance} again and again. Most: {group_id}, {generations:,} generations in {seconds:,} s with {members:member id/member ids}. If nobody deployed just then, see who caused them: kproxy report --only rebalances."
order: 14
*/
WITH generations AS (
    SELECT group_key, response_generation AS generation, min(at_us) AS at_us
    FROM client_group_events
    WHERE event IN ('join', 'heartbeat') AND coalesce(error_code, 0) = 0 AND response_generation > 0
    GROUP BY group_key, response_generation
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY group_key ORDER BY at_us, generation) AS nth
    FROM generations
),
storms AS (
    SELECT a.group_key, min(a.at_us) AS from_us, max(b.at_us) AS to_us
    FROM numbered AS a
    JOIN numbered AS b ON b.group_key = a.group_key AND b.nth = a.nth + :min_rebalances - 1
    WHERE b.at_us - a.at_us <= :period_seconds * 1000000
    GROUP BY a.group_key
),
found AS (
    SELECT
        s.group_key,
        min(g.cluster) AS cluster,
        min(g.group_id) AS group_id,
        max(g.group_type) AS group_type,
        min(g.client_id) AS client_id,
        min(g.client_address) AS client_address,
        max(g.software) AS software,
        count(DISTINCT CASE WHEN g.event IN ('join', 'heartbeat') AND g.response_generation > 0 THEN g.response_generation END)
            AS generations,
        count(DISTINCT nullif(g.member_id, '')) AS members,
        count(DISTINCT g.client_address) AS addresses,
        (max(s.to_us) - min(s.from_us)) DIV 1000000 AS seconds,
        min(g.at) AS first_at,
        max(g.at) AS last_at,
        min(struct(g.at_us, g.connection_id, g.exchange)) AS example
    FROM storms AS s
    JOIN client_group_events AS g ON g.group_key = s.group_key AND g.at_us >= s.from_us AND g.at_us <= s.to_us
    WHERE coalesce(g.error_code, 0) = 0
    GROUP BY s.group_key
)
SELECT
    CASE WHEN generations >= 3 * :min_rebalances THEN 'critical' ELSE 'warning' END AS severity,
    client_id,
    client_address,
    software,
    group_id,
    group_type,
    generations,
    members,
    addresses,
    seconds,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
ORDER BY generations DESC, group_key
