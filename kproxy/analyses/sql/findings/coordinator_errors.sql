/*
id: coordinator_errors
title: Groups and transactions whose coordinator keeps moving or does not come up
severity: critical
meaning: >
  NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS for longer than a restart takes. The group cannot commit
  or rebalance meanwhile. Either __consumer_offsets (or __transaction_state) has no leader, or brokers restart again and again.
columns:
  client_id: ""
  client_address: ""
  software: ""
  resource: group or transactional id
  errors: ""
  error_name: ""
  brokers: number of brokers that answered so
  seconds: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Look at the leaders of __consumer_offsets and __transaction_state (kafka-topics.sh --describe --unavailable-partitions) and at restarts of brokers.
reference: https://kafka.apache.org/documentation/#design_offsetmanagement
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers to a client for a group or transactional id are not listed."}
  min_seconds: {default: 10, meaning: "Groups that recovered within this time are not listed."}
sampled: Answers without an error in between may be among the exchanges that are missing.
needs: [client_errors, exchanges]
verdict: "{rows:group or transactional id/groups or transactional ids} without a steady coordinator. Most: {resource} for {client_id} at {client_address}, {errors:time/times} {error_name} in {seconds:,} s. Check the leaders of __consumer_offsets and __transaction_state."
order: 14
*/
WITH refused AS (
    SELECT
        r.*,
        CASE WHEN r.resource_type IN ('group', 'transactional_id') THEN r.resource ELSE coalesce(e.group_id, e.transactional_id) END
            AS coordinated
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.error_code IN (14, 15, 16)
),
found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        coordinated AS resource,
        max(software) AS software,
        max(error_name) AS error_name,
        count(DISTINCT broker) AS brokers,
        count(*) AS errors,
        min(at_us) AS first_us,
        max(at_us) AS last_us,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM refused
    GROUP BY client_id, client_address, cluster, coordinated
)
SELECT
    client_id,
    client_address,
    software,
    resource,
    errors,
    error_name,
    brokers,
    (last_us - first_us) DIV 1000000 AS seconds,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors AND last_us - first_us >= :min_seconds * 1000000
ORDER BY errors DESC, client_id, client_address, resource, cluster
