/*
id: not_enough_replicas
title: Records refused because too few replicas are in sync
severity: critical
meaning: >
  Fewer replicas are in sync than min.insync.replicas asks for, so the broker refuses records with acks=all. Producers retry until
  delivery.timeout.ms, then the records are lost to them.
columns:
  broker: ""
  topic: ""
  partition: ""
  errors: Produce requests refused for this partition
  error_name: ""
  seconds: ""
action: Bring the missing brokers back; look for under-replicated partitions (kafka-topics.sh --describe --under-min-isr-partitions).
reference: https://kafka.apache.org/documentation/#topicconfigs_min.insync.replicas
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a partition are not listed."}
  pause_seconds: {default: 600, meaning: "After so long without such an answer, the next one begins another episode, with a row of its own."}
verdict: "{rows:partition/partitions} refusing records because too few replicas are in sync. Most: {topic}-{partition} for {client_id} at {client_address}, {errors:time/times} in {seconds:,} s. Bring the missing brokers back: kafka-topics.sh --describe --under-min-isr-partitions."
order: 10
frame:
  group_by: [client_id, client_address, cluster, broker, resource AS topic, partition]
  pause: pause_seconds
  values: {error_name: max(error_name), errors: count(*), seconds: (max(at_us) - min(at_us)) DIV 1000000}
  having: errors >= :min_errors
  order_by: errors DESC
*/
SELECT *
FROM client_errors
WHERE api_key = 0 AND error_code IN (19, 20)
