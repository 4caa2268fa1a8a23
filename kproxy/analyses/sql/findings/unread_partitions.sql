/*
id: unread_partitions
title: Partitions of a group's topic that no member was given
severity: warning
meaning: >
  The leader of the group knew the partition from Metadata, members subscribe to its topic, and yet the assignment in the leader's SyncGroup
  gives the partition to no member. Its records are not handled, however many members run, until another rebalance assigns it. Partitions
  that were added after the assignment, or have no leader, and topics of which nothing was assigned are left out, and so is
  Kafka Streams.
basis:
  rests_on: the leader's SyncGroup, the subscriptions in JoinGroup, and Metadata that the leader had before
  certainty: said
  wrong_if: another program reads the partition for this group over a connection that was not captured
columns:
  severity: "warning: records were produced to these partitions in this time; notice: none were captured"
  group_id: ""
  topic: ""
  partitions: partitions that no member was given
  which: their numbers, at most twenty
  members: that the leader gave partitions to, or none
  assignor: that the group chose
  generation: of this assignment
  records: produced to these partitions meanwhile, as captured
  seconds: from the assignment to the next rebalance, or to the last request of the group
  cluster: ""
action: Restart the member that leads the group, so that it assigns again; then look for a partition.assignment.strategy of your own, or update the client.
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_seconds: {default: 60, meaning: "Assignments that lasted less are not looked at: some assignors move partitions in two steps."}
sampled: Fetches of the partition may be among the exchanges that are missing.
verdict: "{rows:time/times} a group left out partitions of its topic. First: {group_id}, {partitions:partition/partitions} of {topic} ({which}) for {seconds:,} s[, with {records:record/records} produced to them meanwhile]; assignor {assignor}, leader {client_id} at {client_address}. Restart that member, then check its assignor."
order: 19
only_if: >-
  FROM exchanges WHERE api_key IN (12, 14) AND group_id IS NOT NULL
  HAVING max(epoch_us(request_at)) - min(epoch_us(request_at)) >= $min_seconds * 1000000
frame:
  order_by: severity = 'warning' DESC, records DESC, seconds DESC, group_id, topic, generation, cluster
*/
WITH lasting AS (
    SELECT g.group_key, g.generation, least(coalesce(g.next_micros, l.until_us), l.until_us) AS until_us
    FROM group_generations AS g
    JOIN (
        SELECT v.group_key, max(e.at_us) AS until_us
        FROM client_exchanges AS e
        JOIN group_lives AS v ON v.cluster = e.cluster AND v.group_id = e.group_id
        WHERE e.api_key IN (8, 12)
        GROUP BY v.group_key
    ) AS l ON l.group_key = g.group_key
    WHERE NOT g.emptied AND g.formed
), leaders AS ( -- what the leader assigned, and when
    SELECT f.*, l.until_us
    FROM (
        SELECT group_key, cluster, group_id, generation, client_id, client_address, software, seen_at, at_us, connection_id, exchange,
            row_number() OVER (PARTITION BY group_key, generation ORDER BY at_us, connection_id, exchange) AS nth
        FROM client_group_events
        WHERE event = 'sync' AND is_leader AND error_code = 0
    ) AS f
    JOIN lasting AS l ON l.group_key = f.group_key AND l.generation = f.generation AND l.until_us - f.at_us >= $min_seconds * 1000000
    WHERE f.nth = 1
), given AS (
    SELECT l.group_key, l.generation, a.member_id, p.partition
    FROM leaders AS l
    JOIN client_group_events AS a ON a.connection_id = l.connection_id AND a.exchange = l.exchange AND a.event = 'assign' AND a.group_key = l.group_key
    CROSS JOIN unnest(a.assignment) AS p(partition)
), members AS (
    SELECT group_key, generation, count(DISTINCT member_id) AS members FROM given GROUP BY group_key, generation
), given_topics AS (
    SELECT DISTINCT group_key, generation, regexp_replace(partition, '-[0-9]+$', '') AS topic FROM given
), joined AS (
    SELECT e.group_key, e.response_generation AS generation, e.client_id, e.client_address, e.protocol, s.topic
    FROM client_group_events AS e CROSS JOIN unnest(e.subscribed_topics) AS s(topic)
    WHERE e.event = 'join' AND e.error_code = 0 AND e.group_type = 'classic'
), subscribed AS (
    SELECT group_key, generation, topic, max(protocol) AS assignor
    FROM joined
    GROUP BY group_key, generation, topic
    HAVING coalesce(max(protocol), '') <> 'stream'
), known AS ( -- partitions that the leader knew
    SELECT l.group_key, l.generation, s.topic, s.partition, b.assignor
    FROM leaders AS l
    JOIN subscribed AS b ON b.group_key = l.group_key AND b.generation = l.generation
    JOIN given_topics AS t ON t.group_key = l.group_key AND t.generation = l.generation AND t.topic = b.topic
    JOIN partition_spans AS s ON s.cluster = l.cluster AND s.topic = b.topic AND s.client_id IS NOT DISTINCT FROM l.client_id
        AND s.client_address = l.client_address AND s.since_us < l.at_us AND s.leader_id >= 0
    WHERE NOT EXISTS ( -- another topic has its name now
        SELECT 1 FROM partition_lives AS v WHERE v.cluster = l.cluster AND v.topic = s.topic AND v.since_micros BETWEEN s.since_us AND l.until_us)
    GROUP BY l.group_key, l.generation, s.topic, s.partition, b.assignor
), moving AS ( -- a cooperative assignor takes it from its owner first, and gives it to another in the next rebalance
    SELECT DISTINCT e.group_key, e.response_generation AS generation, p.partition
    FROM client_group_events AS e CROSS JOIN unnest(e.owned) AS p(partition)
    WHERE e.event = 'join' AND e.error_code = 0
), left_out AS (
    SELECT k.*
    FROM known AS k
    LEFT JOIN given AS g ON g.group_key = k.group_key AND g.generation = k.generation AND g.partition = k.topic || '-' || CAST(k.partition AS VARCHAR)
    LEFT JOIN moving AS o ON o.group_key = k.group_key AND o.generation = k.generation AND o.partition = k.topic || '-' || CAST(k.partition AS VARCHAR)
    WHERE g.partition IS NULL AND o.partition IS NULL
), unread AS ( -- not even by itself, with assign
    SELECT o.*
    FROM left_out AS o
    JOIN leaders AS l ON l.group_key = o.group_key AND l.generation = o.generation
    WHERE NOT EXISTS (
        SELECT 1
        FROM fetch_positions AS f
        JOIN joined AS j ON j.client_id IS NOT DISTINCT FROM f.client_id AND j.client_address = f.client_address
        WHERE j.group_key = o.group_key AND f.cluster = l.cluster AND f.topic = o.topic AND f.partition = o.partition
            AND f.at_us BETWEEN l.at_us AND l.until_us)
), written AS (
    SELECT u.group_key, u.generation, u.topic, u.partition, CAST(sum(b.count) AS BIGINT) AS records
    FROM unread AS u
    JOIN leaders AS l ON l.group_key = u.group_key AND l.generation = u.generation
    JOIN client_batches AS b ON b.cluster = l.cluster AND b.topic = u.topic AND b.partition = u.partition AND b.direction = 'produce'
        AND coalesce(b.error_code, 0) = 0 AND b.at_us BETWEEN l.at_us AND l.until_us
    GROUP BY u.group_key, u.generation, u.topic, u.partition
), counted AS (
    SELECT u.group_key, u.generation, u.topic, max(u.assignor) AS assignor, count(*) AS partitions,
        array_to_string(list_sort(list(u.partition))[1:20], ', ') AS which, CAST(coalesce(sum(w.records), 0) AS BIGINT) AS records
    FROM unread AS u
    LEFT JOIN written AS w ON w.group_key = u.group_key AND w.generation = u.generation AND w.topic = u.topic AND w.partition = u.partition
    GROUP BY u.group_key, u.generation, u.topic
)
SELECT CASE WHEN c.records > 0 THEN 'warning' ELSE 'notice' END AS severity, l.client_id, l.client_address, l.software, l.group_id, c.topic,
    c.partitions, c.which, m.members, coalesce(c.assignor, 'not seen') AS assignor, c.generation, c.records,
    (l.until_us - l.at_us) // 1000000 AS seconds, l.cluster, l.seen_at AS first_at, make_timestamptz(l.until_us) AS last_at, l.connection_id, l.exchange
FROM counted AS c
JOIN leaders AS l ON l.group_key = c.group_key AND l.generation = c.generation
JOIN members AS m ON m.group_key = c.group_key AND m.generation = c.generation
