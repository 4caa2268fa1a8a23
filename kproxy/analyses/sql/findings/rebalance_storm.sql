/*
id: rebalance_storm
title: Groups that rebalance again and again
severity: critical
meaning: >
  The group began generation after generation within a few minutes. During each rebalance of the eager protocol no member consumes;
  members that are too slow to keep up are thrown out, which begins the next one. Members that are restarted one after the other,
  once or twice each, are a deployment and no storm. Nor is it one that a group is scaled: members join for the first time, or leave
  for good after a while; nor that a job, the only member of its group, runs again and again.
basis:
  rests_on: generations, or epochs, that the group formed, and what began each
  certainty: measured
  wrong_if: members came and went on purpose, one by one, as a service is scaled
columns:
  severity: critical from three times min_rebalances generations on, else warning
  first_cause: "what began the first of them, as in rebalances; joins and follow-ups only if there is nothing else"
  client_id: the member that did
  group_id: ""
  group_type: classic, consumer (KIP-848), share or streams
  generations: generations formed during the storm, without those by which the group was scaled; for other than classic groups, epoch changes not caused by new members
  members: different member ids during the storm
  addresses: ""
  seconds: length of the storm, in seconds
action: >
  See the analysis rebalances for who caused each; usual causes are max.poll.interval.ms, crashing members, rolling restarts without
  group.instance.id, and eager assignors (use CooperativeStickyAssignor or group.protocol=consumer).
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_rebalances: {default: 8, meaning: "Groups with fewer new generations within the period are not listed."}
  min_stay_seconds: {default: 30, meaning: "A member that leaves for good after a shorter time is not one by which the group is scaled."}
  period_seconds: {default: 300, meaning: "The period; a storm ends where no such period goes on."}
sampled: New members, whose joining is no rebalance that hurts, may have joined in exchanges that are missing.
verdict: "{rows:group rebalances/groups rebalance} again and again. {most generations}: {group_id}, {generations:,} generations in {seconds:,} s with {members:member id/member ids}. First cause: {first_cause}, {client_id} at {client_address}. See each: kproxy report --only rebalances."
order: 14
only_if: FROM group_events WHERE event IN ('join', 'heartbeat') HAVING count(DISTINCT response_generation) >= $min_rebalances
frame:
  group_by: [group_key]
  pause: period_seconds
  values:
    cluster: min(cluster)
    group_id: min(group_id)
    group_type: max(group_type)
    first_cause: coalesce(min_by(how, at_us) FILTER (how NOT IN ('joined', 'follow-up')), min_by(how, at_us), 'unknown')
    client_id: coalesce(min_by(cause_client_id, at_us) FILTER (how NOT IN ('joined', 'follow-up')), min_by(cause_client_id, at_us), min(client_id))
    client_address: coalesce(min_by(cause_address, at_us) FILTER (how NOT IN ('joined', 'follow-up')), min_by(cause_address, at_us), min(client_address))
    generations: count(DISTINCT formed_generation)
    members: count(DISTINCT nullif(member_id, ''))
  derived:
    severity: CASE WHEN generations >= 3 * $min_rebalances THEN 'critical' ELSE 'warning' END
  order_by: generations DESC
*/
WITH named AS (
    SELECT *, row_number() OVER (PARTITION BY group_key, member_id ORDER BY at_us, CASE event WHEN 'join' THEN 0 ELSE 1 END) AS nth_of_member
    FROM client_group_events
    WHERE member_id <> ''
), newcomers AS (  -- new members of groups that are not classic: each raises the epoch by one, which is no rebalance that hurts
    SELECT group_key, response_generation AS generation, count(*) AS members
    FROM named
    WHERE nth_of_member = 1 AND event = 'join' AND group_type <> 'classic' AND coalesce(error_code, 0) = 0 AND response_generation > 0
    GROUP BY group_key, response_generation
), formed AS (
    SELECT group_key, response_generation AS generation,
        min(at_us) AS at_us,
        response_generation - lag(response_generation) OVER (PARTITION BY group_key ORDER BY response_generation) AS higher
    FROM client_group_events
    WHERE event IN ('join', 'heartbeat') AND coalesce(error_code, 0) = 0 AND response_generation > 0
    GROUP BY group_key, response_generation
), generations AS (
    SELECT f.group_key, f.generation, f.at_us
    FROM formed AS f
    LEFT JOIN newcomers AS n ON n.group_key = f.group_key AND n.generation = f.generation
    WHERE coalesce(f.higher, 1) > coalesce(n.members, 0)
        AND NOT EXISTS (
            SELECT 1 FROM group_restarts AS r
            WHERE r.group_key = f.group_key AND r.cause = 'deployment' AND f.at_us BETWEEN r.from_micros AND r.to_micros + 10000000)
), scaling AS ( -- of a client at its address, the first to join, or the last to leave if it was there for long; what is chosen
    SELECT c.group_key, c.generation
    FROM group_changes AS c
    JOIN group_spells AS s ON s.group_key = c.group_key AND s.member_id = c.member_id
    WHERE c.place = 1 AND (c.how IN ('follow-up', 'asked for by the application') OR (
        ((c.how = 'joined' AND c.evidence <> 'the first that was seen of the group') OR (c.how = 'left' AND c.micros - s.first_micros >= $min_stay_seconds * 1000000)) AND NOT EXISTS (
        SELECT 1 FROM group_spells AS o
        WHERE o.group_key = s.group_key AND o.client_id IS NOT DISTINCT FROM s.client_id AND o.client_address = s.client_address
            AND CASE WHEN c.how = 'joined' THEN o.first_micros < s.first_micros ELSE o.first_micros > s.first_micros END)))
), alone AS ( -- a member that joins an empty group, as a job does that runs again and again
    SELECT s.group_key, s.first_generation AS generation
    FROM group_spells AS s
    JOIN group_changes AS c ON c.group_key = s.group_key AND c.generation = s.first_generation AND c.place = 1 AND c.how = 'joined'
    WHERE NOT EXISTS (
        SELECT 1 FROM group_spells AS o
        WHERE o.group_key = s.group_key AND o.member_id <> s.member_id AND s.first_generation BETWEEN o.first_generation AND o.last_generation)
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY group_key ORDER BY at_us, generation) AS nth
    FROM generations AS g
    WHERE NOT EXISTS (SELECT 1 FROM scaling AS s WHERE s.group_key = g.group_key AND s.generation = g.generation)
        AND NOT EXISTS (SELECT 1 FROM alone AS a WHERE a.group_key = g.group_key AND a.generation = g.generation)
), periods AS (  -- from each generation to the last of min_rebalances generations, if these formed within period_seconds
    SELECT a.group_key, a.at_us AS from_us, max(b.at_us) AS to_us
    FROM numbered AS a
    JOIN numbered AS b ON b.group_key = a.group_key AND b.nth = a.nth + $min_rebalances - 1
    WHERE b.at_us - a.at_us <= $period_seconds * 1000000
    GROUP BY a.group_key, a.at_us
), followed AS (  -- each event with the end of the last period that began before it
    SELECT g.*, max(p.to_us) OVER (PARTITION BY g.group_key ORDER BY g.at_us) AS to_us
    FROM client_group_events AS g
    LEFT JOIN periods AS p ON p.group_key = g.group_key AND p.from_us = g.at_us
)
SELECT f.*, n.generation AS formed_generation,
    CASE WHEN r.group_key IS NOT NULL AND c.how IN ('left', 'session timeout', 'went silent', 'joined') THEN r.cause ELSE c.how END AS how, c.client_id AS cause_client_id, k.client_address AS cause_address
FROM followed AS f
LEFT JOIN numbered AS n ON n.group_key = f.group_key AND n.generation = f.response_generation AND n.at_us = f.at_us
LEFT JOIN group_changes AS c ON c.group_key = n.group_key AND c.generation = n.generation AND c.place = 1
LEFT JOIN connections AS k ON k.connection_id = c.connection_id
LEFT JOIN group_restarts AS r ON r.group_key = n.group_key AND r.cause = 'restart loop' AND n.at_us BETWEEN r.from_micros AND r.to_micros
WHERE f.at_us <= f.to_us AND coalesce(f.error_code, 0) = 0
