/*
id: flapping_replicas
title: Replicas that fall out of sync and come back again and again
severity: warning
meaning: >
  A broker is among the in-sync replicas of a partition, then it is not, then it is again, within minutes: it copies too slowly for
  moments (its disk, its network, pauses of its process, too few replica fetchers), or loses its session with the controller. While it is out,
  records have a copy less, and producers with acks=all may be refused (NOT_ENOUGH_REPLICAS). A restart takes a broker out once.
basis:
  rests_on: in-sync replicas in answers to Metadata or DescribeTopicPartitions, one after the other on the same connection
  certainty: said
  wrong_if: the broker was restarted several times in a row
columns:
  broker_id: that falls out
  broker: "its address, as the cluster advertised it; unknown"
  times: how often it fell out of a partition, as far as one connection was told
  partitions: that it fell out of as often as min_times, or more
  topic: of the partition that it fell out of most often
  seconds: ""
  cluster: ""
action: Look at disk, network and garbage collection of this broker, and at num.replica.fetchers; IsrShrinksPerSec tells when.
reference: https://kafka.apache.org/documentation/#basic_ops_monitoring
parameters:
  min_times: {default: 4, least: 2, meaning: "Brokers that fell out of a partition less often are not listed."}
  window_seconds: {default: 900, meaning: "Time within which it falls out so often."}
sampled: Answers with other replicas in sync may be among the exchanges that are missing.
verdict: "{count broker_id:broker falls/brokers fall} out of sync and back again and again. {most times}: broker {broker_id} ({broker}), {times:time/times} in {seconds:,} s, in {partitions:partition/partitions}, such as one of {topic}. Look at its disk, its network and pauses of its process."
order: 23
only_if: FROM partition_states WHERE len(in_sync_replicas) < len(replicas) HAVING count(*) >= $min_times
frame:
  order_by: times DESC, cluster, broker_id
*/
WITH states AS (
    SELECT s.*, r.broker_id, list_contains(s.in_sync_replicas, r.broker_id) AS is_in
    FROM partition_spans AS s CROSS JOIN unnest(s.replicas) AS r(broker_id)
), compared AS (
    SELECT *, lag(is_in) OVER (PARTITION BY connection_id, topic, partition, broker_id ORDER BY exchange) AS was_in
    FROM states
), falls AS (
    SELECT *, count(*) OVER (
        PARTITION BY connection_id, topic, partition, broker_id ORDER BY since_us
        RANGE BETWEEN $window_seconds * 1000000 PRECEDING AND CURRENT ROW) AS within
    FROM compared
    WHERE was_in AND NOT is_in
), seen AS (
    SELECT cluster, broker_id, topic, partition, connection_id, client_id, client_address, software, count(*) AS times,
        min(since_us) AS first_us, max(since_us) AS last_us, min(exchange) AS exchange
    FROM falls
    GROUP BY cluster, broker_id, topic, partition, connection_id, client_id, client_address, software
    HAVING max(within) >= $min_times
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY cluster, broker_id ORDER BY times DESC, first_us, topic, partition, connection_id) AS nth
    FROM seen
), of_brokers AS (
    SELECT cluster, broker_id, count(DISTINCT topic || '-' || CAST(partition AS VARCHAR)) AS partitions FROM seen GROUP BY cluster, broker_id
)
SELECT r.client_id, r.client_address, r.software, r.broker_id, coalesce(a.address, 'unknown') AS broker, r.times, b.partitions, r.topic,
    (r.last_us - r.first_us) // 1000000 AS seconds, r.cluster, make_timestamptz(r.first_us) AS first_at, make_timestamptz(r.last_us) AS last_at,
    r.connection_id, r.exchange
FROM ranked AS r
JOIN of_brokers AS b ON b.cluster = r.cluster AND b.broker_id = r.broker_id
LEFT JOIN advertised_brokers AS a ON a.cluster = r.cluster AND a.broker_id = r.broker_id
WHERE r.nth = 1
