/*
id: sequence_errors
title: Idempotent producers whose sequence was out of order
severity: critical
meaning: >
  The broker refused a batch with OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID: batches before it
  were missing, or the broker no longer knew the producer. After a leader has moved that is normal, and producers send the batches
  again. It is critical only where records of a refused batch were not acknowledged, neither under these sequence numbers
  nor under those of a new epoch.
basis:
  rests_on: errors in answers to Produce, and what was acknowledged afterwards
  certainty: inferred
  wrong_if: a resend went over a path that was not captured
columns:
  severity: "critical: records lost; info: all acknowledged; else the capture does not show what became of them: warning after 30 s, else notice"
  producer_id: producer id of the refused batch
  errors: refused batches
  lost: records in refused batches that were never acknowledged
  error_name: ""
  base_sequence: lowest sequence number that was refused
action: >
  If records were lost: send them again, update the client, and look for records that expired in the producer (delivery.timeout.ms)
  or were deleted quickly by retention.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-360%3A+Improve+reliability+of+idempotent+transactional+producer
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a producer for a partition are not listed."}
verdict: "[{rows where severity=critical:?}{sum lost:record/records} never acknowledged after a gap in a producer's sequence. {most lost}: {client_id} at {client_address} to {topic}-{partition}, {lost:record/records}, {error_name}. Send them again, and look in its log for why it gave up|[{rows where severity=notice:partition/partitions} where a producer's sequence was out of order; whether all was acknowledged later was not seen. {most errors}: {client_id} at {client_address} to {topic}-{partition}, {errors:time/times} {error_name}|{rows:partition/partitions} where a producer's sequence was out of order for a moment; the records refused for it were sent again and acknowledged. {most errors}: {client_id} at {client_address} to {topic}-{partition}, {errors:time/times} {error_name}]]."
order: 12
only_if: FROM record_batches WHERE error_code IN (45, 46, 59)
frame:
  group_by: [client_id, client_address, cluster, topic, partition, producer_id]
  values:
    base_sequence: min(base_sequence)
    harm: max(harm)
    lasts: max(at_us) - min(at_us) >= 30000000
  derived:
    severity: CASE WHEN harm = 2 THEN 'critical' WHEN harm = 1 AND lasts THEN 'warning' WHEN harm = 1 THEN 'notice' ELSE 'info' END
  having: errors >= $min_errors
  order_by: harm DESC, lost DESC, errors DESC
*/
SELECT *
FROM refused_batches
WHERE error_code IN (45, 46, 59)
