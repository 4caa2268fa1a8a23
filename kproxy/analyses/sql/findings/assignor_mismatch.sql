/*
id: assignor_mismatch
title: Members that a group refuses because they have no assignor in common
severity: critical
meaning: >
  INCONSISTENT_GROUP_PROTOCOL: the member offers no assignor that all others of its group offer too (or another protocol type). It cannot
  join; a rolling change from an eager to the cooperative assignor in one step looks like this.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  offered: assignors that the member offers
  in_use: assignors that the group has used
  errors: times that it was refused
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Give all members of the group at least one assignor in common; change assignors in two rolling restarts, both listed in the first.
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client are not listed."}
needs: [client_group_events]
verdict: "{rows:client/clients} refused by a group for want of a common assignor. Most: {client_id} at {client_address} offers {offered} to {group_id}, which uses {in_use}; {errors:time/times}. Give all members one assignor in common."
order: 21
*/
WITH refused AS (
    SELECT
        client_id,
        client_address,
        cluster,
        group_key,
        group_id,
        max(software) AS software,
        max(array_join(protocols, ', ')) AS offered,
        count(*) AS errors,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_group_events
    WHERE event = 'join' AND error_code = 23
    GROUP BY client_id, client_address, cluster, group_key, group_id
),
used AS (
    SELECT group_key, array_join(sort_array(collect_set(protocol)), ', ') AS in_use
    FROM client_group_events
    WHERE event = 'join' AND coalesce(error_code, 0) = 0 AND protocol IS NOT NULL AND protocol <> ''
    GROUP BY group_key
)
SELECT
    r.client_id,
    r.client_address,
    r.software,
    r.group_id,
    r.offered,
    u.in_use,
    r.errors,
    r.cluster,
    r.first_at,
    r.last_at,
    r.example.connection_id AS connection_id,
    r.example.exchange AS exchange
FROM refused AS r
LEFT JOIN used AS u ON u.group_key = r.group_key
WHERE r.errors >= :min_errors
ORDER BY errors DESC, r.group_key, client_id, client_address
