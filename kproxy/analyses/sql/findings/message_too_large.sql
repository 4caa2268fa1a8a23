/*
id: message_too_large
title: Records that the broker refuses because they are too large
severity: critical
meaning: >
  The broker refused the batch (MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE). The producer gives these records up: they are lost
  unless the application notices the error.
columns:
  topic: ""
  errors: refused Produce requests for this topic
  error_name: ""
  largest_request_bytes: size of the largest such request, in bytes
action: >
  Send less per record (a reference to a large object instead of the object), compress, or raise max.message.bytes of the topic
  together with max.request.size of the producer and fetch limits of the consumers.
reference: https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
parameters:
  min_errors: {default: 1, meaning: "Fewer refusals of a client for a topic are not listed."}
verdict: "{count client_id:producer has/producers have} records refused as too large. Most: {client_id} at {client_address} to {topic}, {errors:time/times}, in requests of up to {largest_request_bytes:bytes}. These records are lost unless the application handles the error: send smaller ones or raise max.message.bytes."
order: 11
frame:
  group_by: [client_id, client_address, cluster, resource AS topic]
  values: {error_name: max(error_name), errors: count(*), largest_request_bytes: max(request_size)}
  having: errors >= :min_errors
  order_by: errors DESC
*/
SELECT r.*, e.request_size
FROM client_errors AS r
JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
WHERE r.api_key = 0 AND r.error_code IN (10, 18)
