/*
id: no_leader
title: Partitions that have no leader
severity: critical
meaning: >
  Brokers answer that the partition has no leader: nobody can write to it or read from it. All brokers that hold it are gone, or their disks
  are, or the only one that is left missed records and may not lead. A topic that has just been created is left out.
basis:
  rests_on: LEADER_NOT_AVAILABLE for a partition in answers
  certainty: said
  wrong_if: clients used the partition over connections that were not captured
columns:
  severity: "critical: nobody wrote or read the partition afterwards; warning: somebody did"
  errors: answers that there is no leader
  seconds: from the first such answer to the last
action: Bring the brokers back that hold the partition (kafka-topics.sh --describe --unavailable-partitions), look at their disks, and give the topic more replicas.
reference: https://kafka.apache.org/documentation/#replication
parameters:
  min_errors: {default: 3, meaning: "Fewer such answers to a client for a partition are not listed."}
  min_seconds: {default: 5, meaning: "Partitions that had a leader again within this time are not listed."}
sampled: Answers that name a leader may be among the exchanges that are missing.
verdict: "{count topic:topic has/topics have} partitions without a leader. {most seconds}: {topic}-{partition} for {client_id} at {client_address}, {errors:time/times} in {seconds:,} s[{rows where severity=critical:?}, and nobody used it afterwards|, then it had one again]. Bring the brokers back that hold it, or their disks: kafka-topics.sh --describe --unavailable-partitions."
order: 9
only_if: FROM errors WHERE error_code = 5 AND partition IS NOT NULL HAVING count(*) >= $min_errors
frame:
  group_by: [client_id, client_address, cluster, resource AS topic, partition]
  pause: pause_seconds
  values:
    is_back: max(last_worked_us) > max(at_us)
  derived:
    severity: CASE WHEN is_back THEN 'warning' ELSE 'critical' END
  having: errors >= $min_errors AND seconds >= $min_seconds
  order_by: severity, seconds DESC, errors DESC
*/
WITH missing AS (
    SELECT * FROM client_errors WHERE error_code = 5 AND resource_type = 'topic' AND partition IS NOT NULL
), worked AS (
    SELECT cluster, topic, partition, at_us FROM client_offsets WHERE kind = 'fetch' AND error_code = 0
    UNION ALL
    SELECT cluster, topic, partition, at_us FROM client_batches WHERE direction = 'produce' AND error_code = 0
), last_worked AS (
    SELECT cluster, topic, partition, max(at_us) AS last_worked_us FROM worked GROUP BY cluster, topic, partition
)
SELECT m.*, l.last_worked_us
FROM missing AS m
LEFT JOIN last_worked AS l ON l.cluster IS NOT DISTINCT FROM m.cluster AND l.topic = m.resource AND l.partition = m.partition
