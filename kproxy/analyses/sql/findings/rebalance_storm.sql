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
  generations: generations that were formed in the period; of groups that are not classic, epochs, without those of members that were new
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
sampled: New members, whose joining is no rebalance that hurts, may have joined in exchanges that are missing.
needs: [client_group_events]
verdict: "{rows:group rebalances/groups rebalance} again and again. Most: {group_id}, {generations:,} generations in {seconds:,} s with {members:member id/member ids}. If nobody deployed just then, see who caused them: kproxy report --only rebalances."
order: 14
*/
WITH named AS (
    SELECT *, row_number() OVER (PARTITION BY group_key, member_id ORDER BY at_us, CASE event WHEN 'join' THEN 0 ELSE 1 END) AS nth_of_member
    FROM client_group_events
    WHERE member_id <> ''
),
newcomers AS (  -- members of KIP-848 and its kin that were not there before: each makes the epoch one higher, without a rebalance that hurts
    SELECT group_key, response_generation AS generation, count(*) AS members
    FROM named
    WHERE nth_of_member = 1 AND event = 'join' AND group_type <> 'classic' AND coalesce(error_code, 0) = 0 AND response_generation > 0
    GROUP BY group_key, response_generation
),
formed AS (
    SELECT
        group_key,
        response_generation AS generation,
        min(at_us) AS at_us,
        response_generation - lag(response_generation) OVER (PARTITION BY group_key ORDER BY response_generation) AS higher
    FROM client_group_events
    WHERE event IN ('join', 'heartbeat') AND coalesce(error_code, 0) = 0 AND response_generation > 0
    GROUP BY group_key, response_generation
),
generations AS (
    SELECT f.group_key, f.generation, f.at_us
    FROM formed AS f
    LEFT JOIN newcomers AS n ON n.group_key = f.group_key AND n.generation = f.generation
    WHERE coalesce(f.higher, 1) > coalesce(n.members, 0)
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
counted AS (
    SELECT s.group_key, count(*) AS generations
    FROM storms AS s
    JOIN numbered AS n ON n.group_key = s.group_key AND n.at_us >= s.from_us AND n.at_us <= s.to_us
    GROUP BY s.group_key
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
        max(c.generations) AS generations,
        count(DISTINCT nullif(g.member_id, '')) AS members,
        count(DISTINCT g.client_address) AS addresses,
        (max(s.to_us) - min(s.from_us)) DIV 1000000 AS seconds,
        min(g.at) AS first_at,
        max(g.at) AS last_at,
        min(struct(g.at_us, g.connection_id, g.exchange)) AS example
    FROM storms AS s
    JOIN counted AS c ON c.group_key = s.group_key
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
