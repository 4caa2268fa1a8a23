/*
id: stale_leader
title: Clients that do not follow a change of leader
severity: critical
meaning: >
  A broker answers NOT_LEADER_OR_FOLLOWER (or FENCED_LEADER_EPOCH) on the same connection for the same partition again and again. The
  client ought to ask for metadata and go to the new leader; it did not, or gets old metadata.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  topic: ""
  partition: ""
  api_name: ""
  error_name: ""
  errors: answers that the broker does not lead the partition
  seconds: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Restart this client now; then update it, and check that each broker's advertised.listeners can be reached from there.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers on one connection for a partition are not listed."}
  min_seconds: {default: 5, meaning: "Clients that followed within this time are not listed."}
sampled: Metadata requests and fetches elsewhere in between may be among the exchanges that are missing.
needs: [client_errors]
verdict: "{rows:partition/partitions} whose new leader a client does not follow. Most: {client_id} at {client_address} asks {broker} for {topic}-{partition}, {errors:time/times} in {seconds:,} s. Restart that client; then check advertised.listeners and update it."
order: 18
*/
WITH found AS (
    SELECT
        connection_id,
        client_id,
        client_address,
        cluster,
        broker,
        resource AS topic,
        partition,
        max(software) AS software,
        max(api_name) AS api_name,
        max(error_name) AS error_name,
        count(*) AS errors,
        min(at_us) AS first_us,
        max(at_us) AS last_us,
        min(at) AS first_at,
        max(at) AS last_at,
        min(exchange) AS exchange
    FROM client_errors
    WHERE api_key IN (0, 1, 2) AND error_code IN (6, 74) AND resource <> '__cluster_metadata'
    GROUP BY connection_id, client_id, client_address, cluster, broker, resource, partition
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    topic,
    partition,
    api_name,
    error_name,
    errors,
    (last_us - first_us) DIV 1000000 AS seconds,
    cluster,
    first_at,
    last_at,
    connection_id,
    exchange
FROM found
WHERE errors >= :min_errors AND last_us - first_us >= :min_seconds * 1000000
ORDER BY errors DESC, client_id, client_address, topic, partition, connection_id, cluster
