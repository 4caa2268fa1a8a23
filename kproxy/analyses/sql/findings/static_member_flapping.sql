/*
id: static_member_flapping
title: Static members that displace each other or come back too often
severity: warning
meaning: >
  Two processes use the same group.instance.id, so that each throws the other out (FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID), or one
  process restarts all the time. Static membership then causes the rebalances that it should avoid. A process that died has its id until
  its session ends: UNRELEASED_INSTANCE_ID does not count then.
basis:
  rests_on: FENCED_INSTANCE_ID and UNRELEASED_INSTANCE_ID, or joins of one group.instance.id
  certainty: said
  wrong_if: one process was restarted by hand
columns:
  severity: "critical: a process was refused (UNRELEASED_INSTANCE_ID), while another with its id went on, and never got into the group; else warning, as the newer of two goes on"
  group_id: ""
  group_instance_id: group.instance.id
  conflicts: answers that another process has the id (FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID)
  joins: different member ids that joined with it
  kept_out: processes that were refused and did nothing in the group for the rest of the capture, six seconds at least
  addresses: ""
action: Give each process its own group.instance.id (the pod's ordinal, the host's name); find out why it restarts.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances
parameters:
  min_conflicts: {default: 1, meaning: "Answers that say that another process has the id from which an instance is listed."}
  min_joins: {default: 5, meaning: "Joins under new member ids within the period from which an instance is listed."}
  period_seconds: {default: 600, meaning: "The period of these joins. After so long without a join or conflict, the next begins another row."}
verdict: "{rows:static member is/static members are} displaced or restarting again and again. {most conflicts}: {group_instance_id} in group {group_id}[, {conflicts:conflict/conflicts}], {joins:join/joins} from {addresses:address/addresses}[{rows where severity=critical:?}; {kept_out:process/processes} never got in]. Give each process its own group.instance.id; if it has one, find out why it restarts."
order: 24
only_if: FROM group_events WHERE group_instance_id <> ''
frame:
  group_by: [group_key, group_instance_id]
  pause: period_seconds
  values:
    cluster: min(cluster)
    group_id: min(group_id)
    conflicts: count(is_conflict)
    joins: count(nth)
    joins_within_period: count(is_frequent)
    kept_out: count(DISTINCT kept_out)
    first_at: coalesce(min(CASE WHEN is_conflict = 1 THEN seen_at END), min(seen_at))
    example: min(struct_pack(is_join := is_conflict IS NULL, at_us := at_us, client_id := client_id, client_address := client_address, software := software, connection_id := connection_id, exchange := exchange))
  derived:
    client_id: example.client_id
    client_address: example.client_address
    software: example.software
    severity: CASE WHEN kept_out > 0 THEN 'critical' ELSE 'warning' END
  having: conflicts >= $min_conflicts OR joins_within_period > 0
  order_by: severity, conflicts DESC, joins DESC
*/
WITH joins AS (  -- the first join of each member id
    SELECT group_key, group_instance_id, member_id,
        min(example_of(at_us, connection_id, exchange)) AS place
    FROM client_group_events
    WHERE event = 'join' AND coalesce(error_code, 0) = 0 AND coalesce(member_id, '') <> '' AND coalesce(group_instance_id, '') <> ''
    GROUP BY group_key, group_instance_id, member_id
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY group_key, group_instance_id ORDER BY place.at_us, member_id) AS nth
    FROM joins
), compared AS (
    SELECT a.*, CASE WHEN b.place.at_us - a.place.at_us <= $period_seconds * 1000000 THEN 1 END AS is_frequent
    FROM numbered AS a
    LEFT JOIN numbered AS b
        ON b.group_key = a.group_key AND b.group_instance_id = a.group_instance_id AND b.nth = a.nth + $min_joins - 1
), held AS ( -- by a member that goes on, or by one that died, which has its id until session.timeout.ms: no conflict
    SELECT e.connection_id, e.exchange, max(x.at_us) > max(e.at_us) AS goes_on
    FROM client_group_events AS e
    JOIN joins AS j ON j.group_key = e.group_key AND j.group_instance_id = e.group_instance_id AND j.member_id <> e.member_id
        AND j.place.at_us < e.at_us
    JOIN (
        SELECT cluster, group_id, member_id, max(at_us) AS at_us
        FROM client_exchanges WHERE api_key = 68 AND len(error_codes) = 0 GROUP BY cluster, group_id, member_id
    ) AS x ON x.cluster = e.cluster AND x.group_id = e.group_id AND x.member_id = j.member_id
    WHERE e.error_code = 111
    GROUP BY e.connection_id, e.exchange
), working AS (
    SELECT client_id, client_address, cluster, group_id, max(at_us) AS at_us
    FROM client_exchanges
    WHERE api_key IN (8, 11, 12, 14, 68) AND response_at IS NOT NULL AND len(error_codes) = 0
    GROUP BY client_id, client_address, cluster, group_id
)
SELECT e.*, j.nth, j.is_frequent, CASE WHEN e.error_code = 82 OR (e.error_code = 111 AND coalesce(h.goes_on, true)) THEN 1 END AS is_conflict,
    CASE WHEN h.goes_on AND coalesce(w.at_us, 0) <= e.at_us AND t.until_us - e.at_us >= 6000000
        THEN struct_pack(client_id := e.client_id, client_address := e.client_address) END AS kept_out
FROM client_group_events AS e
JOIN capture_times AS t ON t.connection_id = e.connection_id
LEFT JOIN held AS h ON h.connection_id = e.connection_id AND h.exchange = e.exchange
LEFT JOIN working AS w ON w.client_id IS NOT DISTINCT FROM e.client_id AND w.client_address = e.client_address
    AND w.cluster = e.cluster AND w.group_id = e.group_id
LEFT JOIN compared AS j ON j.group_key = e.group_key AND j.group_instance_id = e.group_instance_id
    AND j.place.connection_id = e.connection_id AND j.place.exchange = e.exchange AND e.event = 'join'
WHERE coalesce(e.group_instance_id, '') <> '' AND (j.nth IS NOT NULL OR e.error_code IN (82, 111))
