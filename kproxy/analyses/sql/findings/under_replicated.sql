/*
id: under_replicated
title: Partitions that lack a replica for long
severity: notice
meaning: >
  A broker that holds replicas of partitions is not among those in sync, for longer than a restart takes. Records are written to fewer
  copies meanwhile: another broker that fails takes the partition away, or records with it. A replica that moves to a broker which never
  had it in sync is left out, and so is a broker that is back within min_seconds.
basis:
  rests_on: the replicas and those in sync in answers to Metadata and DescribeTopicPartitions
  certainty: said
  wrong_if: the broker was back between two answers that were captured
columns:
  severity: "warning: a partition had one copy left, of several, in the last answer without the broker; notice: it had more"
  broker_id: that is missing
  broker: "its address, as the cluster advertised it; unknown"
  topic: of the partition with the fewest replicas in sync
  partitions: that lack it, as far as clients asked about them
  topics: number of topics of these partitions
  replicas: that this topic's partitions should have
  in_sync: replicas of that partition that were in sync in the last answer without the broker
  seconds: from the first answer without it to the last
  came_back: whether it was in sync again in a later answer for all of these partitions
  back_at: the first answer in which it was in sync again (UTC)
  cluster: ""
action: Look at the broker's log, disks and network (kafka-topics.sh --describe --under-replicated-partitions), and start it again.
reference: https://kafka.apache.org/documentation/#basic_ops_monitoring
parameters:
  min_seconds: {default: 300, meaning: "Brokers that were missing for less are not listed, as a restart takes its time."}
  pause_seconds: {default: 120, meaning: "Partitions that lose the broker so long after others lost it belong to another episode, with a row of its own."}
sampled: Answers in which the broker was back may be among the exchanges that are missing.
verdict: "{count broker_id:broker was/brokers were} out of sync for long. {most seconds}: broker {broker_id} ({broker}), for {seconds:,} s in {partitions:partition/partitions} of {topics:topic/topics}, such as {topic}; {in_sync} of {replicas} replicas were left in sync[{came_back:?}, then it was back|, and it is not back]. Look at its log, disks and network."
order: 24
only_if: FROM partition_states WHERE len(in_sync_replicas) < len(replicas)
frame:
  order_by: severity = 'warning' DESC, seconds DESC, cluster, broker_id
*/
WITH missing AS ( -- each partition with a replica that was out of sync at some time
    SELECT DISTINCT s.cluster, s.topic, s.partition, r.broker_id
    FROM partition_spans AS s CROSS JOIN unnest(s.replicas) AS r(broker_id)
    WHERE len(s.in_sync_replicas) < len(s.replicas) AND NOT list_contains(s.in_sync_replicas, r.broker_id)
), spans AS (
    SELECT m.broker_id, s.*, list_contains(s.replicas, m.broker_id) AND NOT list_contains(s.in_sync_replicas, m.broker_id) AS is_out,
        coalesce(list_contains(s.offline_replicas, m.broker_id), false) AS is_offline
    FROM missing AS m
    JOIN partition_spans AS s ON s.cluster = m.cluster AND s.topic = m.topic AND s.partition = m.partition
), points AS ( -- what was said when
    SELECT *, max(CASE WHEN NOT is_out AND list_contains(in_sync_replicas, broker_id) THEN 1 ELSE 0 END) OVER before AS was_in,
        sum(CASE WHEN is_out THEN 0 ELSE 1 END) OVER before AS island,
        lead(CASE WHEN NOT is_out THEN at_us END IGNORE NULLS) OVER before AS back_us
    FROM (
        SELECT *, since_us AS at_us FROM spans
        UNION ALL
        SELECT *, until_us FROM spans WHERE until_us > since_us
    ) AS seen
    WINDOW before AS (PARTITION BY cluster, topic, partition, broker_id ORDER BY at_us, is_out, connection_id, exchange)
), islands AS (
    SELECT cluster, topic, partition, broker_id, min(at_us) AS first_us, max(at_us) AS last_us, max(back_us) AS back_us,
        max(struct_pack(at_us := at_us, number := len(in_sync_replicas))).number AS in_sync, max(len(replicas)) AS replicas,
        min(struct_pack(at_us := since_us, connection_id := connection_id, exchange := exchange)) AS example
    FROM points
    WHERE is_out
    GROUP BY cluster, topic, partition, broker_id, island
    HAVING max(at_us) - min(at_us) >= $min_seconds * 1000000 AND (max(was_in) = 1 OR bool_or(is_offline))
), marked AS (
    SELECT *, CASE WHEN first_us > $pause_seconds * 1000000 + lag(first_us) OVER (PARTITION BY cluster, broker_id ORDER BY first_us) THEN 1 ELSE 0 END AS begins
    FROM islands
), numbered AS (
    SELECT *, sum(begins) OVER (PARTITION BY cluster, broker_id ORDER BY first_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS episode
    FROM marked
), episodes AS (
    SELECT cluster, broker_id, min(struct_pack(in_sync := in_sync, topic := topic, replicas := replicas)) AS worst,
        count(*) AS partitions, count(DISTINCT topic) AS topics, (max(last_us) - min(first_us)) // 1000000 AS seconds,
        bool_and(back_us IS NOT NULL) AS came_back, max(back_us) AS back_us, min(first_us) AS first_us, max(last_us) AS last_us,
        bool_or(in_sync = 1 AND replicas > 1) AS is_last, min(example) AS example
    FROM numbered
    GROUP BY cluster, broker_id, episode
)
SELECT CASE WHEN e.is_last THEN 'warning' ELSE 'notice' END AS severity, c.client_id, c.client_address, c.software, e.broker_id,
    coalesce(a.address, 'unknown') AS broker, e.worst.topic AS topic, e.partitions, e.topics, e.worst.replicas AS replicas,
    e.worst.in_sync AS in_sync, e.seconds, e.came_back, CASE WHEN e.came_back THEN make_timestamptz(e.back_us) END AS back_at, e.cluster,
    make_timestamptz(e.first_us) AS first_at, make_timestamptz(e.last_us) AS last_at, e.example.connection_id AS connection_id,
    e.example.exchange AS exchange
FROM episodes AS e
JOIN client_connections AS c ON c.connection_id = e.example.connection_id
LEFT JOIN advertised_brokers AS a ON a.cluster = e.cluster AND a.broker_id = e.broker_id
