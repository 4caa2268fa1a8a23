/*
id: group_for_each_start
title: Programs that make themselves a new group each time they start
severity: notice
meaning: >
  Its group.id has something in it that is new each time (a UUID, a time, the name of a pod). A new group has no offsets: it begins at the
  beginning or the end of its topics (auto.offset.reset), so that records are read again or skipped, and each group's offsets stay at
  the broker for days.
basis:
  rests_on: the groups that the client joined, one after the other
  certainty: inferred
  wrong_if: several programs share the client id and the address, or each start wants all records on purpose
columns:
  groups: that it joined, each once
  first_group: group that it joined first
  last_group: group that it joined last
action: Give it a group.id that stays; for a program that wants no group, assign its partitions (assign) and do not commit.
reference: https://kafka.apache.org/documentation/#consumerconfigs_group.id
parameters:
  min_groups: {default: 4, meaning: "Clients with fewer groups are not listed."}
sampled: Which groups it joined may be in exchanges that are missing.
verdict: "{rows:program makes a new group each time it starts/programs make a new group each time they start}. {most groups}: {client_id} at {client_address} joined {groups:group/groups}, each once, {first_group} first and {last_group} last. Give it a group.id that stays."
order: 49
only_if: FROM group_events WHERE event = 'join' HAVING count(DISTINCT group_id) >= $min_groups
frame:
  group_by: [client_id, client_address, cluster]
  values:
    groups: count(*)
    first_group: min_by(group_id, at_us)
    last_group: max_by(group_id, at_us)
    last_at: max(last_at)
  having: groups >= $min_groups
  order_by: groups DESC
*/
WITH joined AS (
    SELECT client_id, client_address, cluster, group_id, max(software) AS software, min(at_us) AS at_us, min(seen_at) AS seen_at,
        max(seen_at) AS last_at, max(at_us) AS last_us, min(example_of(at_us, connection_id, exchange)) AS example
    FROM client_group_events
    WHERE group_type IN ('classic', 'consumer') AND event IN ('join', 'heartbeat') AND group_id NOT LIKE 'console-consumer-%'
        AND group_id NOT IN (SELECT unnest(groups) FROM exchanges WHERE api_key = 42 AND groups IS NOT NULL) -- DeleteGroups: as tests do
    GROUP BY client_id, client_address, cluster, group_id
), ordered AS (
    SELECT *, max(last_us) OVER (
            PARTITION BY client_id, client_address, cluster ORDER BY at_us, group_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_us
    FROM joined
), alone AS ( -- clients that are in two groups at a time are several programs
    SELECT client_id, client_address, cluster
    FROM ordered
    GROUP BY client_id, client_address, cluster
    HAVING count(*) >= $min_groups AND max(CASE WHEN before_us > at_us THEN 1 ELSE 0 END) = 0
)
SELECT o.client_id, o.client_address, o.cluster, o.group_id, o.software, o.at_us, o.seen_at, o.last_at, o.example.connection_id AS connection_id,
    o.example.exchange AS exchange
FROM ordered AS o
JOIN alone AS a ON a.client_id IS NOT DISTINCT FROM o.client_id AND a.client_address = o.client_address AND a.cluster = o.cluster
