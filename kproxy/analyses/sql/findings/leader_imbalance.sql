/*
id: leader_imbalance
title: Brokers whose partitions are led by others for long
severity: notice
meaning: >
  A broker is the preferred leader of partitions (the first of their replicas) and has them in sync, but others lead half of them at least,
  as after a restart. The others do its work: all clients of these partitions write to them and read from them. Kafka moves leaders back
  within minutes, unless auto.leader.rebalance.enable is false.
basis:
  rests_on: leaders, replicas and those in sync in answers to Metadata and DescribeTopicPartitions
  certainty: said
  wrong_if: leaders were moved away from it on purpose
columns:
  broker_id: that leads too few
  broker: "its address, as the cluster advertised it; unknown"
  preferred: partitions whose preferred leader it is, as far as clients asked about them
  displaced: partitions that another led for min_seconds at least, until the last answer, although it had them in sync
  leads: partitions that it leads in the last answers
  most_leads: partitions that the broker with the most leads
  most_broker_id: that broker
  topic: of one of the displaced partitions
  seconds: from the first answer in which another led one of them to the last
  cluster: ""
action: Elect the preferred leaders (kafka-leader-election.sh --election-type preferred --all-topic-partitions); set auto.leader.rebalance.enable.
reference: https://kafka.apache.org/documentation/#basic_ops_leader_balancing
parameters:
  min_seconds: {default: 600, meaning: "Partitions that another broker led for less are not listed: Kafka looks every five minutes."}
  min_partitions: {default: 2, least: 1, meaning: "Brokers that others displaced from fewer partitions are not listed."}
sampled: Answers with the preferred leader may be among the exchanges that are missing.
verdict: "{rows:broker leads/brokers lead} too few partitions for long. {most displaced}: others lead {displaced:,} of the {preferred:partition/partitions} that broker {broker_id} ({broker}) should lead, such as of {topic}, for {seconds:,} s; it leads {leads:,}, broker {most_broker_id} leads {most_leads:,}. Elect the preferred leaders, and set auto.leader.rebalance.enable."
order: 54
only_if: FROM partition_states WHERE leader_id <> replicas[1] AND list_contains(in_sync_replicas, replicas[1]) HAVING count(*) >= $min_partitions
frame:
  order_by: displaced DESC, seconds DESC, cluster, broker_id
*/
WITH points AS (
    SELECT cluster, topic, partition, leader_id, replicas[1] AS broker_id, replicas, since_us AS at_us, since_us, connection_id, exchange,
        coalesce(leader_id <> replicas[1] AND list_contains(in_sync_replicas, replicas[1]), false) AS is_displaced
    FROM partition_spans
    WHERE len(replicas) > 1
    UNION ALL
    SELECT cluster, topic, partition, leader_id, replicas[1], replicas, until_us, since_us, connection_id, exchange,
        coalesce(leader_id <> replicas[1] AND list_contains(in_sync_replicas, replicas[1]), false)
    FROM partition_spans
    WHERE len(replicas) > 1 AND until_us > since_us
), numbered AS ( -- other replicas begin anew: the partition was moved
    SELECT *, sum(CASE WHEN is_displaced THEN 0 ELSE 1 END) OVER (
            PARTITION BY cluster, topic, partition, replicas ORDER BY at_us, is_displaced, connection_id, exchange
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS island,
        row_number() OVER (PARTITION BY cluster, topic, partition ORDER BY at_us DESC, is_displaced, connection_id, exchange) AS latest
    FROM points
), last_leaders AS (
    SELECT cluster, topic, partition, leader_id, broker_id, replicas, island, is_displaced FROM numbered WHERE latest = 1
), displaced AS (
    SELECT n.cluster, n.topic, n.partition, n.broker_id, min(n.at_us) AS first_us, max(n.at_us) AS last_us,
        min(struct_pack(at_us := n.since_us, connection_id := n.connection_id, exchange := n.exchange)) AS example
    FROM numbered AS n
    JOIN last_leaders AS l ON l.cluster = n.cluster AND l.topic = n.topic AND l.partition = n.partition AND l.replicas = n.replicas
        AND l.island = n.island AND l.is_displaced
    WHERE n.is_displaced
    GROUP BY n.cluster, n.topic, n.partition, n.broker_id
    HAVING max(n.at_us) - min(n.at_us) >= $min_seconds * 1000000
), brokers AS (
    SELECT cluster, broker_id, count(*) AS displaced, min(topic) AS topic, (max(last_us) - min(first_us)) // 1000000 AS seconds,
        min(first_us) AS first_us, max(last_us) AS last_us, min(example) AS example
    FROM displaced
    GROUP BY cluster, broker_id
), preferred AS (
    SELECT cluster, broker_id, count(*) AS preferred FROM last_leaders GROUP BY cluster, broker_id
), leads AS (
    SELECT cluster, leader_id, count(*) AS leads FROM last_leaders WHERE leader_id IS NOT NULL GROUP BY cluster, leader_id
), most AS (
    SELECT cluster, max(struct_pack(leads := leads, leader_id := leader_id)) AS leader FROM leads GROUP BY cluster
)
SELECT c.client_id, c.client_address, c.software, b.broker_id, coalesce(a.address, 'unknown') AS broker, p.preferred, b.displaced,
    coalesce(l.leads, 0) AS leads, m.leader.leads AS most_leads, m.leader.leader_id AS most_broker_id, b.topic, b.seconds, b.cluster,
    make_timestamptz(b.first_us) AS first_at, make_timestamptz(b.last_us) AS last_at, b.example.connection_id AS connection_id,
    b.example.exchange AS exchange
FROM brokers AS b
JOIN preferred AS p ON p.cluster = b.cluster AND p.broker_id = b.broker_id
JOIN most AS m ON m.cluster = b.cluster
JOIN client_connections AS c ON c.connection_id = b.example.connection_id
LEFT JOIN leads AS l ON l.cluster = b.cluster AND l.leader_id = b.broker_id
LEFT JOIN advertised_brokers AS a ON a.cluster = b.cluster AND a.broker_id = b.broker_id
WHERE b.displaced >= $min_partitions AND b.displaced * 2 >= p.preferred
