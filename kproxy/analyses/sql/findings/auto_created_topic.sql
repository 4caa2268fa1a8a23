/*
id: auto_created_topic
title: Topics that a broker created because a client named them
severity: notice
meaning: >
  A broker answered that the topic does not exist, and shortly afterwards it did, without a CreateTopics request for it. A broker
  creates it at the first request that names it: one that it still does not know later was created by somebody else. Kafka's own
  topics, and those that Streams keeps for itself, are left out: brokers create them when they are first needed. Such topics have
  the broker's default partitions, replication and retention; many of them are spelling mistakes.
basis:
  rests_on: a topic that was unknown, then known, without a CreateTopics in between
  certainty: inferred
  wrong_if: CreateTopics went over a connection that was not captured
columns:
  broker: ""
  topic: ""
  ms_until_it_was_there: milliseconds from the first answer that it does not exist to the first that describes it
  cluster: ""
action: >
  Create topics on purpose, with the partitions and replicas that they need, and set auto.create.topics.enable=false on the brokers.
reference: https://kafka.apache.org/documentation/#brokerconfigs_auto.create.topics.enable
parameters:
  max_seconds: {default: 30, meaning: "Longest time from the first answer that the topic does not exist to the first that describes it."}
  max_missing_ms: {default: 1000, meaning: "Topics that did not exist for longer than this after they were first named were created by somebody else."}
sampled: The request that created the topic may be among the exchanges that are missing.
verdict: "{rows:topic, probably created because a client named it/topics, probably created because clients named them}. First: {topic}, named by {client_id} at {client_address}. If the name is a mistake, correct it and delete the topic; set auto.create.topics.enable=false."
order: 40
only_if: FROM errors WHERE api_key = 3 AND error_code IN (3, 5)
frame:
  order_by: first_at, topic, cluster
*/
WITH missing AS (
    SELECT
        client_id, client_address, software, broker, cluster, resource AS topic, seen_at, at_us, connection_id, exchange,
        row_number() OVER (PARTITION BY cluster, resource ORDER BY at_us, connection_id, exchange) AS nth,
        max(at_us) OVER (PARTITION BY cluster, resource) - min(at_us) OVER (PARTITION BY cluster, resource) AS missing_us
    FROM client_errors
    WHERE api_key = 3 AND resource_type = 'topic' AND error_code IN (3, 5) AND partition IS NULL
        AND resource NOT IN ('__consumer_offsets', '__transaction_state', '__share_group_state')
        AND resource NOT LIKE '%-repartition' AND resource NOT LIKE '%-changelog' -- of Streams: its group's coordinator makes them (KIP-1071)
), deleted AS (
    SELECT cluster, topic, at_us
    FROM client_exchanges
    CROSS JOIN unnest(topics) AS t(topic)
    WHERE api_key = 20
), described AS (
    SELECT cluster, topic, seen_at, at_us
    FROM client_exchanges
    CROSS JOIN unnest(described_topics) AS t(topic)
    WHERE api_key = 3
), created AS (
    SELECT cluster, topic, count(*) AS requests
    FROM client_exchanges
    CROSS JOIN unnest(topics) AS t(topic)
    WHERE api_key = 19
    GROUP BY cluster, topic
), found AS (
    SELECT m.client_id, m.client_address, m.software, m.broker, m.cluster, m.topic, m.seen_at, m.at_us, m.connection_id,
        m.exchange,
        min(d.at_us) AS there_us,
        min(d.seen_at) AS there_at
    FROM missing AS m
    JOIN described AS d ON d.cluster = m.cluster AND d.topic = m.topic
    WHERE m.nth = 1 AND m.missing_us <= $max_missing_ms * 1000
        AND NOT EXISTS ( -- what was there before is another topic
            FROM deleted AS x WHERE x.cluster = m.cluster AND x.topic = m.topic AND x.at_us BETWEEN d.at_us AND m.at_us)
    GROUP BY
        m.client_id, m.client_address, m.software, m.broker, m.cluster, m.topic, m.seen_at, m.at_us, m.connection_id, m.exchange
)
SELECT f.*, f.seen_at AS first_at, f.there_at AS last_at, round((f.there_us - f.at_us) / 1000, 1) AS ms_until_it_was_there
FROM found AS f
LEFT JOIN created AS c ON c.cluster = f.cluster AND c.topic = f.topic
WHERE c.topic IS NULL AND f.there_us > f.at_us AND f.there_us - f.at_us <= $max_seconds * 1000000
