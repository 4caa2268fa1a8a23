/*
id: unknown_topic_loop
title: Clients that keep asking for a topic that is not there
severity: warning
meaning: >
  The broker says again and again that the topic or partition does not exist, and the client goes on asking. The name is wrong, the
  topic was deleted while clients still use it, or was made anew with another id. A member of a group that leaves the topic out of its
  subscription, as with a pattern when a topic is deleted, is not listed: it asks for a while only.
basis:
  rests_on: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID in answers
  certainty: said
  wrong_if: the topic was about to be created
columns:
  errors: answers that the topic or partition does not exist
  error_name: ""
  api_name: ""
  deleted_by: the client that deleted the topic before; empty if none was seen to
  seconds: ""
action: Correct the name in the client's configuration or create the topic; restart clients that hold on to a deleted topic.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers to a client for a topic are not listed."}
  min_seconds: {default: 3, meaning: "A client that stopped within this time is not listed."}
  max_seconds: {default: 30, meaning: "Metadata answers are left out that came at most so long before the topic was there for the same client: programs often start before their topics are created."}
verdict: "{count client_id:client keeps/clients keep} asking for topics that do not exist. {most errors}: {client_id} at {client_address} for {topic}, {errors:time/times} in {seconds:,} s[{deleted_by:?}; {deleted_by} had deleted it. Create it again, or stop what uses it|. Correct the name or create the topic]."
order: 21
only_if: FROM errors WHERE error_code IN (3, 100) HAVING count(*) >= $min_errors
frame:
  group_by: [client_id, client_address, cluster, resource AS topic]
  pause: pause_seconds
  values: {deleted_by: max(deleted_by)}
  having: errors >= $min_errors AND seconds >= $min_seconds
  order_by: errors DESC
*/
WITH missing AS (
    SELECT *
    FROM client_errors
    WHERE resource_type = 'topic' AND error_code IN (3, 100)
), lasting AS ( -- without topics that Kafka Streams makes itself as soon as its sources are there
    SELECT *
    FROM (
        SELECT *, is_made AND max(CASE WHEN NOT is_made THEN at_us END) OVER (
        PARTITION BY client_id, client_address, cluster ORDER BY at_us RANGE BETWEEN 60000000 PRECEDING AND 60000000 FOLLOWING) IS NOT NULL AS is_due
        FROM (SELECT *, regexp_matches(resource, '-(repartition|changelog)$') AS is_made FROM missing) AS n
    ) AS d
    WHERE NOT is_due
), described AS (
    SELECT client_id, client_address, cluster, topic, at_us
    FROM client_exchanges
    CROSS JOIN unnest(described_topics) AS t(topic)
    WHERE api_key = 3 AND topic IN (SELECT resource FROM missing)
), subscribed AS (
    SELECT client_id, client_address, cluster, group_id, topic, max(at_us) AS at_us
    FROM client_group_events
    CROSS JOIN unnest(subscribed_topics) AS t(topic)
    WHERE event = 'join' AND topic IN (SELECT resource FROM missing)
    GROUP BY client_id, client_address, cluster, group_id, topic
), dropped AS ( -- topics that a member subscribed to, and later no more, although to others
    SELECT s.*
    FROM subscribed AS s
    WHERE EXISTS (
        SELECT 1 FROM client_group_events AS g
        WHERE g.client_id IS NOT DISTINCT FROM s.client_id AND g.client_address = s.client_address AND g.cluster IS NOT DISTINCT FROM s.cluster
            AND g.group_id = s.group_id AND g.event = 'join' AND g.at_us > s.at_us AND len(g.subscribed_topics) > 0)
)
SELECT m.* EXCLUDE (is_made, is_due), CASE WHEN NOT EXISTS ( -- it was made again since then
    FROM described AS d WHERE d.cluster IS NOT DISTINCT FROM m.cluster AND d.topic = m.resource AND d.at_us BETWEEN x.at_us + 5000000 AND m.at_us)
    THEN x.deleted_by END AS deleted_by
FROM lasting AS m
LEFT JOIN (
    SELECT cluster, topic, min(at_us) AS at_us, min_by(coalesce(client_id, client_address), at_us) AS deleted_by
    FROM client_exchanges
    CROSS JOIN unnest(topics) AS t(topic)
    WHERE api_key = 20 AND response_at IS NOT NULL AND len(error_codes) = 0
    GROUP BY cluster, topic
) AS x ON x.cluster IS NOT DISTINCT FROM m.cluster AND x.topic = m.resource AND x.at_us <= m.at_us
WHERE NOT EXISTS (
    SELECT 1 FROM dropped AS s
    WHERE s.client_id IS NOT DISTINCT FROM m.client_id AND s.client_address = m.client_address AND s.cluster IS NOT DISTINCT FROM m.cluster
        AND s.topic = m.resource)
AND (m.api_key <> 3 OR NOT EXISTS (
    FROM described AS d
    WHERE d.client_id IS NOT DISTINCT FROM m.client_id AND d.client_address = m.client_address
        AND d.cluster IS NOT DISTINCT FROM m.cluster AND d.topic = m.resource
        AND d.at_us BETWEEN m.at_us AND m.at_us + $max_seconds * 1000000
))
