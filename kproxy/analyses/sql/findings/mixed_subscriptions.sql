/*
id: mixed_subscriptions
title: Groups whose members subscribe to different topics
severity: warning
meaning: >
  At the same time, members of one group subscribe to different topics, each to some that the other does not read. Mostly two applications share a group id by mistake: each
  restart of one rebalances the other, and lag of the group says nothing about either. While a release with other topics is rolled
  out, this is normal.
basis:
  rests_on: subscriptions of members that overlap in time
  certainty: measured
  wrong_if: a release with other topics is being rolled out
columns:
  group_id: ""
  topics: topics of this subscription
  connections: connections of members with this subscription
  other_client_id: a member with the other subscription
  other_client_address: address of that member
  other_topics: topics of the other subscription
  seconds: seconds for which both were in use
  cluster: ""
action: Give each application its own group.id.
reference: https://kafka.apache.org/documentation/#consumerconfigs_group.id
parameters:
  min_seconds: {default: 30, meaning: "Shortest time for which both subscriptions have to be in use; a third if they have no topic in common, and the clients' ids differ in more than numbers."}
sampled: That a member changed its subscription, or left, may be in an exchange that is missing.
verdict: "{rows:group/groups} whose members read different topics. Longest: {group_id}, where {client_id} reads {topics} and {other_client_id} reads {other_topics}, for {seconds:,} s. Give each application its own group.id."
order: 26
only_if: >-
  FROM group_events WHERE event IN ('join', 'heartbeat') AND len(subscribed_topics) > 0
  GROUP BY group_id HAVING count(DISTINCT list_sort(subscribed_topics)) > 1
frame:
  derived:
    seconds: together_us // 1000000
    last_at: make_timestamptz(to_us)
    connection_id: example.connection_id
    exchange: example.exchange
  having: nth = 1 AND together_us >= $min_seconds * 1000000 / CASE WHEN is_other_program THEN 3 ELSE 1 END
  order_by: seconds DESC, group_key
*/
WITH subscribed AS (
    SELECT g.cluster, g.group_key, g.group_id,
        array_to_string(list_sort(g.subscribed_topics), ', ') AS topics,
        list_sort(g.subscribed_topics) AS topic_list,
        g.client_id, g.client_address, g.software, g.member_id, g.seen_at, g.at_us, g.connection_id, g.exchange,
        greatest(c.last_seen_us, g.at_us) AS until_us
    FROM client_group_events AS g
    JOIN client_connections AS c ON c.connection_id = g.connection_id
    WHERE g.event IN ('join', 'heartbeat') AND len(g.subscribed_topics) > 0 AND coalesce(g.error_code, 0) IN (0, 79)
), latest AS (
    SELECT *,
        least(coalesce(lead(at_us) OVER (PARTITION BY group_key, connection_id ORDER BY at_us, exchange), until_us), until_us) AS to_us
    FROM subscribed
), marked AS (  -- a new period of use begins if no member had the subscription for min_seconds
    SELECT *,
        CASE WHEN at_us > $min_seconds * 1000000 + max(to_us) OVER (
            PARTITION BY group_key, topics ORDER BY at_us, connection_id, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) THEN 1 ELSE 0 END AS begins
    FROM latest
), numbered AS (
    SELECT *, sum(begins) OVER (
        PARTITION BY group_key, topics ORDER BY at_us, connection_id, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS period
    FROM marked
), spans AS (
    SELECT cluster, group_key, group_id, topics,
        min(topic_list) AS topic_list,
        min(client_id) AS client_id,
        min(client_address) AS client_address,
        max(software) AS software,
        count(DISTINCT connection_id) AS connections,
        min(at_us) AS from_us, max(to_us) AS to_us,
        min(seen_at) AS first_at,
        min(example_of(at_us, connection_id, exchange)) AS example
    FROM numbered
    GROUP BY cluster, group_key, group_id, topics, period
), paired AS (
    SELECT a.*,
        b.client_id AS other_client_id, b.client_address AS other_client_address, b.topics AS other_topics,
        least(a.to_us, b.to_us) - greatest(a.from_us, b.from_us) AS together_us,
        NOT list_has_any(a.topic_list, b.topic_list)
            AND rtrim(a.client_id, '0123456789') <> rtrim(b.client_id, '0123456789') AS is_other_program,
        row_number() OVER (
            PARTITION BY a.group_key
            ORDER BY least(a.to_us, b.to_us) - greatest(a.from_us, b.from_us) DESC, a.topics, b.topics
        ) AS nth
    FROM spans AS a
    JOIN spans AS b ON b.group_key = a.group_key AND b.topics > a.topics
    WHERE len(list_filter(a.topic_list, lambda x: NOT list_contains(b.topic_list, x))) > 0 AND len(list_filter(b.topic_list, lambda x: NOT list_contains(a.topic_list, x))) > 0
)
SELECT *
FROM paired
