/*
id: assignor_mismatch
title: Members that a group refuses because of their assignor
severity: critical
meaning: >
  INCONSISTENT_GROUP_PROTOCOL: the member offers no assignor that all others of its group offer too (or another protocol type). It cannot
  join; a rolling change from an eager to the cooperative assignor in one step looks like this. UNSUPPORTED_ASSIGNOR: the broker has no
  assignor of the name that a member asks for (group.remote.assignor).
basis:
  rests_on: INCONSISTENT_GROUP_PROTOCOL or UNSUPPORTED_ASSIGNOR in answers to members that want to join
  certainty: said
  wrong_if: the member joined the group on a connection that was not captured
columns:
  severity: "critical: it never got into the group; warning: it did later"
  offered: assignors that the member offers
  in_use: assignors that the group has used, or the other kind of group that it is
  change: what to change
  error_name: ""
  errors: times that it was refused
  got_in: 1 if it joined later
action: Give all members of the group at least one assignor in common, and one that the broker has (uniform, range); change assignors in two rolling restarts, both listed in the first.
reference: https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client are not listed."}
verdict: "{rows:client/clients} refused by a group because of an assignor. {most errors}: {client_id} at {client_address} offers {offered} to {group_id}[{in_use:?} (in use there: {in_use})]; {errors:time/times}. Change {change}."
order: 21
only_if: FROM group_events WHERE error_code IN (23, 112)
frame:
  group_by: [client_id, client_address, cluster, group_key, group_id]
  values:
    offered: coalesce(max(coalesce(nullif(array_to_string(protocols, ', '), ''), protocol)), 'none by name')
    in_use: max(coalesce('a ' || other_kind || ' group', in_use))
    change: >-
      CASE WHEN max(other_kind) IS NOT NULL THEN 'its group.id or group.protocol, as the group is of another kind'
      WHEN max(error_code) = 112 THEN 'its group.remote.assignor to one that the broker has (uniform, range)'
      ELSE 'partition.assignment.strategy, so that all members have one assignor in common' END
    got_in: CAST(max(got_in) AS BIGINT)
  derived: {severity: CASE WHEN got_in = 0 THEN 'critical' ELSE 'warning' END}
  having: errors >= $min_errors
  order_by: got_in, errors DESC
*/
WITH used AS (
    SELECT group_key, CASE WHEN min(protocol_type) = max(protocol_type) THEN min(protocol_type) END AS protocol_type, array_to_string(sorted_set(nullif(protocol, '')), ', ') AS in_use, CASE WHEN min(group_type) = max(group_type) THEN min(group_type) END AS kind
    FROM client_group_events
    WHERE event = 'join' AND coalesce(error_code, 0) = 0
    GROUP BY group_key
)
SELECT e.*, nullif(u.in_use, '') AS in_use, CASE WHEN u.kind <> e.group_type THEN u.kind WHEN u.protocol_type <> e.protocol_type THEN u.protocol_type END AS other_kind,
    EXISTS (
        SELECT 1 FROM client_group_events AS j
        WHERE j.group_key = e.group_key AND j.client_id IS NOT DISTINCT FROM e.client_id AND j.client_address = e.client_address
            AND j.event IN ('join', 'heartbeat') AND j.error_code = 0 AND j.at_us > e.at_us) AS got_in
FROM client_group_events AS e
LEFT JOIN used AS u ON u.group_key = e.group_key
WHERE (e.event = 'join' AND e.error_code = 23) OR e.error_code = 112
