/*
id: sequence_errors
title: Idempotent producers whose sequence has a gap
severity: critical
meaning: >
  The broker refused a batch with OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID: batches before it
  are missing, or the broker no longer knows the producer. Records were lost, or will be if the application goes on.
columns:
  topic: ""
  partition: ""
  producer_id: producer id of the refused batch
  errors: refused batches
  error_name: ""
  base_sequence: lowest sequence number that was refused
action: >
  Update the client, and look for records that expired in the producer (delivery.timeout.ms) or were deleted quickly by retention;
  close and reopen the producer, and send again what was not acknowledged.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-360%3A+Improve+reliability+of+idempotent+transactional+producer
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a producer for a partition are not listed."}
verdict: "{rows:partition/partitions} with a gap in a producer's sequence. Most: {client_id} at {client_address} on {topic}-{partition}, {errors:time/times} {error_name}. Records may be lost: restart the producer and send again what was not acknowledged."
order: 12
frame:
  group_by: [client_id, client_address, cluster, resource AS topic, partition, producer_id]
  values: {error_name: max(error_name), errors: count(*), base_sequence: min(base_sequence)}
  having: errors >= :min_errors
  order_by: errors DESC
*/
WITH refused AS (
    SELECT connection_id, exchange, coalesce(topic, topic_id) AS topic, partition, min(producer_id) AS producer_id, min(base_sequence) AS base_sequence
    FROM record_batches
    WHERE direction = 'produce'
    GROUP BY connection_id, exchange, coalesce(topic, topic_id), partition
)
SELECT r.*, b.producer_id, b.base_sequence
FROM client_errors AS r
LEFT JOIN refused AS b
    ON b.connection_id = r.connection_id AND b.exchange = r.exchange AND b.topic = r.resource AND b.partition = r.partition
WHERE r.api_key = 0 AND r.error_code IN (45, 46, 59)
