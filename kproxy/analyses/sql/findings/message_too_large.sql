/*
id: message_too_large
title: Records that the broker refuses because they are too large
severity: critical
meaning: >
  The broker refused the batch (MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE). The producer gives these records up: they are lost
  unless the application notices the error.
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  errors: refused Produce requests for this topic
  error_name: ""
  largest_request_bytes: size of the largest such request, in bytes
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Send less per record (a reference to a large object instead of the object), compress, or raise max.message.bytes of the topic
  together with max.request.size of the producer and fetch limits of the consumers.
reference: https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
parameters:
  min_errors: {default: 1, meaning: "Fewer refusals of a client for a topic are not listed."}
needs: [client_errors, exchanges]
verdict: "{count client_id:producer has/producers have} records refused as too large. Most: {client_id} at {client_address} to {topic}, {errors:time/times}, in requests of up to {largest_request_bytes:bytes}. These records are lost unless the application handles the error: send smaller ones or raise max.message.bytes."
order: 11
*/
WITH found AS (
    SELECT
        r.client_id,
        r.client_address,
        r.cluster,
        r.resource AS topic,
        max(r.software) AS software,
        max(r.error_name) AS error_name,
        count(*) AS errors,
        max(e.request_size) AS largest_request_bytes,
        min(r.at) AS first_at,
        max(r.at) AS last_at,
        min(struct(r.at_us, r.connection_id, r.exchange)) AS example
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.api_key = 0 AND r.error_code IN (10, 18)
    GROUP BY r.client_id, r.client_address, r.cluster, r.resource
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    errors,
    error_name,
    largest_request_bytes,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors
ORDER BY errors DESC, client_id, client_address, topic, cluster
