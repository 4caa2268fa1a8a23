/*
id: session_expired
title: Members that their group had thrown out while they still ran
severity: warning
meaning: >
  A heartbeat, SyncGroup or commit was answered with UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH although the member had not left: no
  heartbeat had arrived within session.timeout.ms, or it did not join a rebalance in time, so the group went on without it. Its
  process stood still (garbage collection, a paused container, a busy processor), or the network was cut. A static member whose
  group.instance.id another one took is left out: see static_member_flapping.
basis:
  rests_on: UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH in answers to members that had not left
  certainty: said
  wrong_if: an administrator removed the member, or it left over a connection that was not captured
columns:
  group_id: ""
  member_id: ""
  error_name: ""
  session_timeout_ms: session.timeout.ms, in milliseconds; empty if it was not captured, or the broker sets it
  silence_ms: milliseconds from the member's request before to the refused one
  cluster: ""
action: Look at pauses of that process and at its network at this time, and at its handler where the client has no thread for heartbeats (kafkajs); raise session.timeout.ms (45 s by default) if pauses are normal there.
reference: https://kafka.apache.org/documentation/#consumerconfigs_session.timeout.ms
parameters:
  min_silence_ms: {default: 0, meaning: "Members whose last heartbeat before was nearer than this are not listed."}
sampled: That the member left by itself may be in an exchange that is missing.
verdict: "{rows:time a running member was/times running members were} thrown out by a group. First: {client_id} at {client_address} from {group_id}[, {silence_ms:ms} after its previous request]. Look for a pause of that process (garbage collection, CPU, container), a handler that lets no heartbeat through, or a cut network."
order: 22
only_if: FROM group_events WHERE event IN ('heartbeat', 'sync', 'commit') AND error_code IN (25, 110)
frame:
  derived: {silence_ms: (at_us - before_us) // 1000, first_at: seen_at, last_at: seen_at}
  having: coalesce(at_us - before_us, 0) >= $min_silence_ms * 1000
  order_by: first_at, group_key, member_id, connection_id, exchange
*/
WITH refused AS (
    SELECT *,
        row_number() OVER (PARTITION BY group_key, member_id ORDER BY at_us, connection_id, exchange) AS nth
    FROM client_group_events
    WHERE (event IN ('heartbeat', 'sync') OR (event = 'commit' AND member_id <> '')) AND error_code IN (25, 110)
), left_group AS (
    SELECT group_key, member_id, min(at_us) AS left_us
    FROM client_group_events
    WHERE event = 'leave'
    GROUP BY group_key, member_id
), beats AS (
    SELECT connection_id, group_id, member_id, exchange, at_us
    FROM client_exchanges
    WHERE api_key IN (11, 12, 14, 68, 76, 88)
), sessions AS (
    SELECT group_key, member_id, max(session_timeout_ms) AS session_timeout_ms
    FROM client_group_events
    WHERE event = 'join'
    GROUP BY group_key, member_id
), matched AS (
    SELECT r.client_id, r.client_address, r.software, r.cluster, r.group_key, r.group_id, r.member_id, r.error_name,
        r.seen_at, r.at_us, r.connection_id, r.exchange,
        max(b.at_us) AS before_us
    FROM refused AS r
    LEFT JOIN left_group AS l ON l.group_key = r.group_key AND l.member_id = r.member_id AND l.left_us <= r.at_us
    LEFT JOIN beats AS b ON b.connection_id = r.connection_id
        AND b.group_id = r.group_id AND b.member_id = r.member_id AND b.exchange < r.exchange
    WHERE r.nth = 1 AND l.left_us IS NULL
    AND r.at_us - epoch_us(coalesce(r.request_at, r.seen_at)) < 2000000 -- else it was the broker that stood still
    AND (r.event <> 'commit' OR EXISTS ( -- anybody may send a commit in a member's name
        SELECT 1 FROM beats AS w WHERE w.group_id = r.group_id AND w.member_id = r.member_id AND w.at_us < r.at_us)
    ) AND NOT EXISTS (
        SELECT 1
        FROM client_group_events AS mine
        JOIN client_group_events AS other ON other.group_key = mine.group_key AND other.group_instance_id = mine.group_instance_id
        WHERE mine.event = 'join' AND mine.group_key = r.group_key AND mine.member_id = r.member_id AND mine.group_instance_id <> ''
            AND other.event = 'join' AND other.member_id <> r.member_id AND coalesce(other.error_code, 0) = 0
            AND other.at_us BETWEEN mine.at_us AND r.at_us)
    GROUP BY
        r.client_id, r.client_address, r.software, r.cluster, r.group_key, r.group_id, r.member_id, r.error_name, r.seen_at, r.at_us, r.connection_id, r.exchange
)
SELECT m.*, s.session_timeout_ms
FROM matched AS m
LEFT JOIN sessions AS s ON s.group_key = m.group_key AND s.member_id = m.member_id
