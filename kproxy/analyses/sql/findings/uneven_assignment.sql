/*
id: uneven_assignment
title: Groups in which one member has most of the partitions
severity: notice
meaning: >
  The assignor gives one member several times what the others have, or leaves members without any although there are partitions for all.
  The range assignor, a default, shares each topic by itself: of topics with one partition each, the first member gets all.
basis:
  rests_on: what members were assigned in the generation that lasted longest
  certainty: said
  wrong_if: the partitions of the others carry more, or members differ in what they subscribe to
columns:
  group_id: ""
  members: of the generation that lasted longest
  partitions: of the generation that lasted longest
  most: partitions of the member with the most, which is the client that is named
  fewest: partitions of the member with the fewest
  topics: of which the group has partitions
  assignor: name of the assignor in use
  cluster: ""
action: Use the roundrobin or the cooperative-sticky assignor (partition.assignment.strategy), or KIP-848.
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_partitions: {default: 4, meaning: "Groups with fewer partitions are not listed."}
  min_seconds: {default: 5, meaning: "Generations that did not last as long are not listed: more members may still come."}
  times_fewest: {default: 3, meaning: "How many times the partitions of the member with the fewest the one with the most has to have.", most: 1000000}
verdict: "{count group_id:group shares/groups share} partitions unevenly. {most most}: in {group_id}, {client_id} at {client_address} has {most:d} of {partitions:partition/partitions}, and another member has {fewest:d} ({members:member/members}, assignor {assignor}). Use roundrobin or cooperative-sticky."
order: 44
only_if: FROM group_events WHERE assignment IS NOT NULL HAVING count(DISTINCT member_id) > 1
frame:
  order_by: most DESC, group_id, cluster
*/
WITH lasting AS ( -- the generation of each group that lasted longest
    SELECT g.group_key, g.generation, g.last_micros,
        coalesce(g.next_micros, l.until_us) - g.last_micros AS lasted_us
    FROM group_generations AS g
    JOIN (
        SELECT v.group_key, max(e.at_us) AS until_us
        FROM client_exchanges AS e
        JOIN group_lives AS v ON v.cluster = e.cluster AND v.group_id = e.group_id
        WHERE e.api_key IN (8, 12, 68)
        GROUP BY v.group_key
    ) AS l ON l.group_key = g.group_key
    WHERE NOT g.emptied AND g.formed
    QUALIFY row_number() OVER (PARTITION BY g.group_key ORDER BY coalesce(g.next_micros, l.until_us) - g.last_micros DESC, g.generation) = 1
), given AS ( -- what each member was told
    SELECT e.group_key, e.cluster, e.group_id, e.member_id, e.client_id, e.client_address, e.software, e.seen_at, e.at_us, e.connection_id, e.exchange,
        e.assignment, e.response_generation AS generation, g.lasted_us, make_timestamptz(g.last_micros + g.lasted_us) AS last_at
    FROM client_group_events AS e
    JOIN lasting AS g ON g.group_key = e.group_key AND g.generation = e.response_generation AND g.lasted_us >= $min_seconds * 1000000
    WHERE e.event IN ('sync', 'heartbeat', 'join') AND e.error_code = 0 AND e.assignment IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY e.group_key, e.member_id ORDER BY e.at_us DESC, e.connection_id, e.exchange DESC) = 1
), subscribed AS (
    SELECT group_key, count(DISTINCT array_to_string(list_sort(subscribed_topics), ',')) AS kinds, max(protocol) AS assignor
    FROM keyed_group_events
    WHERE event = 'join' AND error_code = 0
    GROUP BY group_key
), ranked AS (
    SELECT *, len(assignment) AS had,
        count(*) OVER (PARTITION BY group_key) AS members,
        CAST(sum(len(assignment)) OVER (PARTITION BY group_key) AS BIGINT) AS partitions,
        min(len(assignment)) OVER (PARTITION BY group_key) AS fewest,
        row_number() OVER (PARTITION BY group_key ORDER BY len(assignment) DESC, member_id) AS nth
    FROM given
), topics AS (
    SELECT group_key, count(DISTINCT regexp_replace(partition, '-[0-9]+$', '')) AS topics
    FROM given CROSS JOIN unnest(assignment) AS each_one(partition)
    GROUP BY group_key
)
SELECT r.*, r.had AS most, r.seen_at AS first_at, t.topics, coalesce(s.assignor, 'not seen') AS assignor
FROM ranked AS r
JOIN topics AS t ON t.group_key = r.group_key
LEFT JOIN subscribed AS s ON s.group_key = r.group_key
WHERE r.nth = 1 AND r.members > 1 AND r.partitions >= $min_partitions AND r.partitions >= r.members AND coalesce(s.kinds, 1) < 2
    AND r.had >= greatest(2, r.fewest * $times_fewest)
