/*
id: offset_out_of_range_loop
title: Consumers that keep asking for offsets that are gone
severity: critical
meaning: >
  The broker answers OFFSET_OUT_OF_RANGE again and again: the records at these offsets were deleted by retention (or the offset is
  beyond the end) and the consumer does not move to one that exists.
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  partition: ""
  errors: OFFSET_OUT_OF_RANGE answers for the partition
  seconds: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Set the group's offsets to ones that exist (kafka-consumer-groups.sh --reset-offsets) or set auto.offset.reset; if it comes back, the
  consumer is slower than retention.ms or retention.bytes allow.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
parameters:
  min_errors: {default: 5, meaning: "Fewer such answers to a client for a partition are not listed."}
needs: [client_errors]
verdict: "{rows:partition/partitions} where a consumer keeps asking for offsets that are gone. Most: {client_id} at {client_address} on {topic}-{partition}, {errors:time/times} in {seconds:,} s. It reads nothing: reset its group's offsets or set auto.offset.reset."
order: 12
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        resource AS topic,
        partition,
        max(software) AS software,
        CAST(sum(count) AS BIGINT) AS errors,
        (max(at_us) - min(at_us)) DIV 1000000 AS seconds,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_errors
    WHERE api_key = 1 AND error_code = 1
    GROUP BY client_id, client_address, cluster, resource, partition
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    partition,
    errors,
    seconds,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors
ORDER BY errors DESC, client_id, client_address, topic, partition, cluster
