/*
id: offset_out_of_range_loop
title: Consumers that keep asking for offsets that are gone
severity: critical
meaning: >
  The broker answers OFFSET_OUT_OF_RANGE again and again: the records at these offsets were deleted by retention (or the offset is
  beyond the end) and the consumer does not move to one that exists.
columns:
  topic: ""
  partition: ""
  errors: OFFSET_OUT_OF_RANGE answers for the partition
  seconds: ""
action: >
  Set the group's offsets to ones that exist (kafka-consumer-groups.sh --reset-offsets) or set auto.offset.reset; if it comes back, the
  consumer is slower than retention.ms or retention.bytes allow.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
parameters:
  min_errors: {default: 5, meaning: "Fewer such answers to a client for a partition are not listed."}
  pause_seconds: {default: 600, meaning: "After so long without such an answer, the next one begins another episode, with a row of its own."}
verdict: "{rows:partition/partitions} where a consumer keeps asking for offsets that are gone. Most: {client_id} at {client_address} on {topic}-{partition}, {errors:time/times} in {seconds:,} s. It reads nothing: reset its group's offsets or set auto.offset.reset."
order: 12
only_if: FROM errors WHERE api_key = 1 AND error_code = 1
frame:
  group_by: [client_id, client_address, cluster, resource AS topic, partition]
  pause: pause_seconds
  values: {errors: CAST(sum(count) AS BIGINT), seconds: (max(at_us) - min(at_us)) // 1000000}
  having: errors >= $min_errors
  order_by: errors DESC
*/
SELECT *
FROM client_errors
WHERE api_key = 1 AND error_code = 1
