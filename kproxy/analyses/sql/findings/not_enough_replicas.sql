/*
id: not_enough_replicas
title: Records refused because too few replicas are in sync
severity: critical
meaning: >
  Fewer replicas are in sync than min.insync.replicas asks for, so the broker refuses records with acks=all. Producers send them again
  until delivery.timeout.ms. It is critical where records were not acknowledged in the end, or where the broker still refused
  them after half a minute; a broker that restarts refuses some for seconds.
basis:
  rests_on: NOT_ENOUGH_REPLICAS in answers to Produce, REQUEST_TIMED_OUT beside it, and what was acknowledged afterwards
  certainty: said
  wrong_if: the records were acknowledged on a connection that was not captured
columns:
  severity: "critical: records lost, or refused still after 30 s; warning: refused for 30 s, or up to the end of the capture; else notice"
  errors: refused record batches for this partition
  lost: records in them that were never acknowledged
  error_name: ""
  seconds: ""
action: Bring the missing brokers back; look for under-replicated partitions (kafka-topics.sh --describe --under-min-isr-partitions).
reference: https://kafka.apache.org/documentation/#topicconfigs_min.insync.replicas
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a partition are not listed."}
verdict: "{rows:producer to a partition is/producers to partitions are} refused because too few replicas are in sync. {most errors}: {topic}-{partition} for {client_id} at {client_address}, {errors:time/times} in {seconds:,} s; {lost:record/records} never acknowledged. If it lasts, bring the missing brokers back: kafka-topics.sh --describe --under-min-isr-partitions."
order: 10
only_if: FROM record_batches WHERE error_code IN (19, 20)
frame:
  group_by: [client_id, client_address, cluster, broker, topic, partition]
  pause: pause_seconds
  values:
    harm: max(harm)
  derived:
    severity: >-
      CASE WHEN harm = 2 OR (harm = 1 AND seconds >= 30) THEN 'critical' WHEN harm = 1 OR seconds >= 30 THEN 'warning'
      ELSE 'notice' END
  having: errors >= $min_errors
  order_by: harm DESC, errors DESC
*/
SELECT *
FROM refused_batches
WHERE lacks_replicas
