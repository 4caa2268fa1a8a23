/*
id: coordinator_errors
title: Groups and transactions whose coordinator keeps moving or does not come up
severity: critical
meaning: >
  NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS for longer than a restart takes. The group cannot commit
  or rebalance meanwhile. Either __consumer_offsets (or __transaction_state) has no leader, or brokers restart again and again; or several
  brokers advertise one address, and what clients ask of the coordinator comes to another broker.
basis:
  rests_on: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, and no success in between
  certainty: said
  wrong_if: the group went on over a connection that was not captured
columns:
  severity: "critical: the group or transaction did not go on until the end of the capture; warning: it did"
  resource: group or transactional id
  errors: ""
  error_name: ""
  brokers: number of brokers that answered so
  shared_address: address that several brokers advertise to it; empty if none do
  seconds: ""
action: >
  Where brokers share an address, give each one its own in advertised.listeners. Else look at the leaders of __consumer_offsets and __transaction_state (kafka-topics.sh --describe --unavailable-partitions) and at restarts of brokers.
reference: https://kafka.apache.org/documentation/#design_offsetmanagement
parameters:
  min_errors: {default: 5, meaning: "Fewer such answers to a client for a group or transactional id are not listed."}
  min_seconds: {default: 10, meaning: "Groups that recovered within this time are not listed."}
sampled: Answers without an error in between may be among the exchanges that are missing.
verdict: "{rows:group or transactional id/groups or transactional ids} without a steady coordinator. {most errors}: {resource} for {client_id} at {client_address}, {errors:time/times} {error_name} in {seconds:,} s. [Give each broker an address of its own in advertised.listeners: several advertise {shared_address}|Check the leaders of __consumer_offsets and __transaction_state]."
order: 14
only_if: FROM errors WHERE error_code IN (14, 15, 16) HAVING count(*) >= $min_errors
frame:
  group_by: [client_id, client_address, cluster, coordinated AS resource]
  pause: pause_seconds
  values:
    brokers: count(DISTINCT node)
    shared_address: max(shared_address)
    went_on: max(last_worked_us) > max(at_us)
  derived: {severity: CASE WHEN went_on THEN 'warning' ELSE 'critical' END}
  having: errors >= $min_errors AND seconds >= $min_seconds
  order_by: severity, errors DESC
*/
WITH refused AS (
    SELECT r.*,
        CASE WHEN r.resource_type IN ('group', 'transactional_id') THEN r.resource ELSE coalesce(e.group_id, e.transactional_id) END
            AS coordinated
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.error_code IN (14, 15, 16)
), worked AS (
    -- not FindCoordinator: that a coordinator is named does not mean that it answers
    SELECT client_id, client_address, cluster, coalesce(group_id, transactional_id) AS coordinated, at_us AS worked_us
    FROM client_exchanges
    WHERE api_key <> 10 AND response_at IS NOT NULL AND len(error_codes) = 0 AND coalesce(group_id, transactional_id) IS NOT NULL
), lasting AS (
    SELECT client_id, client_address, cluster, coordinated, max(worked_us) AS last_worked_us
    FROM worked
    GROUP BY client_id, client_address, cluster, coordinated
), outages AS (
    SELECT r.*, l.last_worked_us,
        max(r.at_us) OVER outage - min(r.at_us) OVER outage AS outage_us
    FROM refused AS r
    ASOF LEFT JOIN worked AS w ON coalesce(w.client_id, '') = coalesce(r.client_id, '') AND w.client_address = r.client_address AND w.cluster = r.cluster
        AND w.coordinated = r.coordinated AND w.worked_us <= r.at_us
    LEFT JOIN lasting AS l ON l.client_id IS NOT DISTINCT FROM r.client_id AND l.client_address = r.client_address AND l.cluster = r.cluster
        AND l.coordinated = r.coordinated
    WINDOW outage AS (PARTITION BY r.client_id, r.client_address, r.cluster, r.coordinated, w.worked_us)
)
SELECT o.*, a.shared_address
FROM outages AS o
LEFT JOIN shared_addresses AS a ON a.cluster = o.cluster AND a.client_address = o.client_address
WHERE outage_us >= $min_seconds * 1000000
