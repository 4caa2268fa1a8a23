/*
id: stale_leader
title: Clients that do not follow a change of leader
severity: critical
meaning: >
  A broker answers NOT_LEADER_OR_FOLLOWER (or FENCED_LEADER_EPOCH) on the same connection for the same partition again and again. The
  client ought to ask for metadata and go to the new leader; it did not, or gets old metadata.
columns:
  broker: ""
  topic: ""
  partition: ""
  api_name: ""
  error_name: ""
  errors: answers that the broker does not lead the partition
  seconds: ""
action: Restart this client now; then update it, and check that each broker's advertised.listeners can be reached from there.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers on one connection for a partition are not listed."}
  min_seconds: {default: 5, meaning: "Clients that followed within this time are not listed."}
  pause_seconds: {default: 600, meaning: "After so long without such an answer, the next one begins another episode, with a row of its own."}
sampled: Metadata requests and fetches elsewhere in between may be among the exchanges that are missing.
verdict: "{rows:partition/partitions} whose new leader a client does not follow. Most: {client_id} at {client_address} asks {broker} for {topic}-{partition}, {errors:time/times} in {seconds:,} s. Restart that client; then check advertised.listeners and update it."
order: 18
only_if: FROM errors WHERE api_key IN (0, 1, 2) AND error_code IN (6, 74) HAVING count(*) >= $min_errors
frame:
  group_by: [connection_id, client_id, client_address, cluster, broker, resource AS topic, partition]
  pause: pause_seconds
  values:
    api_name: max(api_name)
    error_name: max(error_name)
    errors: count(*)
    seconds: (max(at_us) - min(at_us)) // 1000000
  having: errors >= $min_errors AND seconds >= $min_seconds
  order_by: errors DESC
*/
SELECT *
FROM client_errors
WHERE api_key IN (0, 1, 2) AND error_code IN (6, 74) AND resource <> '__cluster_metadata'
