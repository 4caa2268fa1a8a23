/*
id: message_too_large
title: Records that the broker refuses because they are too large
severity: critical
meaning: >
  The broker refused the batch (MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE). Producers split a batch of several records and send
  the parts: then nothing is lost. A record that is too large alone is given up, and lost unless the application handles the error.
basis:
  rests_on: errors in answers to Produce, and what was acknowledged afterwards
  certainty: said
  wrong_if: the records were acknowledged on a connection that was not captured
columns:
  severity: "critical: records lost; info: all acknowledged in smaller batches; notice: the capture does not show what became of them"
  errors: refused record batches for this topic
  lost: records in them that were never acknowledged
  error_name: ""
  largest_bytes: size of the largest such batch, in bytes
action: >
  Send less per record (a reference to a large object instead of the object), compress, or raise max.message.bytes of the topic
  together with max.request.size of the producer and fetch limits of the consumers. Where batches are only split, lower batch.size.
reference: https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
parameters:
  min_errors: {default: 1, meaning: "Fewer refusals of a client for a topic are not listed."}
verdict: "{count client_id:producer has/producers have} batches refused as too large. {most errors}: {client_id} at {client_address} to {topic}, {errors:time/times}, of up to {largest_bytes:bytes}; [{rows where severity=critical:?}{sum lost:record/records} never acknowledged: send smaller ones or raise max.message.bytes|[{rows where severity=notice:?}whether they were split and acknowledged was not seen|all records were acknowledged in smaller batches]]."
order: 11
only_if: FROM record_batches WHERE error_code IN (10, 18)
frame:
  group_by: [client_id, client_address, cluster, topic]
  values:
    harm: max(harm)
  derived:
    severity: CASE harm WHEN 2 THEN 'critical' WHEN 1 THEN 'notice' ELSE 'info' END
  having: errors >= $min_errors
  order_by: harm DESC, lost DESC, errors DESC
*/
SELECT *
FROM refused_batches
WHERE error_code IN (10, 18)
