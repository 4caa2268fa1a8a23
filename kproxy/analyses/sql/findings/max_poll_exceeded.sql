/*
id: max_poll_exceeded
title: Consumers that left their group because they did not poll in time
severity: warning
meaning: >
  The application took longer than max.poll.interval.ms (5 minutes by default) between two polls, so the client left the group by
  itself. Its partitions moved, and what it was handling will be handled again. Java's consumer gives this reason when it leaves. For
  other clients it is inferred: they leave and join again on the same connection, a while later.
basis:
  rests_on: the reason in LeaveGroup, or a leave and a join on one connection (column evidence)
  certainty: inferred
  wrong_if: the application closed its consumer, or left by itself, and came back
columns:
  group_id: ""
  member_id: ""
  group_instance_id: of a static member (KIP-345)
  evidence: "stated: the client gave the reason; inferred: it left without one and came back on the same connection"
  reason: as the client gave it
  rebalance_timeout_ms: max.poll.interval.ms, in milliseconds
  away_ms: milliseconds from leaving to joining again
  cluster: ""
action: >
  Take fewer records per poll (max.poll.records), handle them faster or on another thread, or raise max.poll.interval.ms.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
parameters:
  min_away_ms: {default: 1000, meaning: "A client that leaves without a reason, and joins again sooner on the same connection, is not listed."}
sampled: A member that was away for long may have asked in between, in an exchange that is missing.
verdict: "{rows:time/times} a consumer left its group because it polled too late. First: {client_id} at {client_address} in group {group_id} ({evidence}), max.poll.interval.ms={rebalance_timeout_ms:d}. Lower max.poll.records or raise max.poll.interval.ms."
order: 20
only_if: >-
  FROM group_events AS l WHERE event = 'leave' AND (lower(reason) LIKE '%poll%' OR EXISTS (
    SELECT 1 FROM group_events AS j
    WHERE j.event = 'join' AND j.connection_id = l.connection_id AND j.group_id = l.group_id AND j.seen_at > l.seen_at))
frame:
  derived:
    evidence: CASE WHEN says_so = 1 THEN 'stated' ELSE 'inferred' END
    away_ms: round((back_us - at_us) / 1000, 0)
    first_at: seen_at
    last_at: coalesce(back_at, seen_at)
  having: says_so = 1 OR (coalesce(reason, '') = '' AND back_us - at_us >= $min_away_ms * 1000)
  order_by: says_so DESC, first_at, group_id, member_id, connection_id, exchange, cluster
*/
WITH joined AS (
    SELECT connection_id, group_id, seen_at, at_us, exchange, member_id, rebalance_timeout_ms
    FROM client_group_events
    WHERE event = 'join'
), left_group AS (
    SELECT *,
        CASE WHEN lower(reason) LIKE '%poll timeout%' OR lower(reason) LIKE '%max.poll.interval%' OR lower(reason) LIKE '%max poll%'
            THEN 1 ELSE 0 END AS says_so
    FROM client_group_events
    WHERE event = 'leave' AND coalesce(error_code, 0) = 0
), matched AS (
    SELECT
        l.client_id, l.client_address, l.software, l.cluster, l.group_id, l.member_id, l.group_instance_id, l.reason,
        l.says_so, l.seen_at, l.at_us, l.connection_id, l.exchange,
        max(CASE WHEN j.exchange < l.exchange THEN j.rebalance_timeout_ms END) AS rebalance_timeout_ms,
        min(CASE WHEN j.exchange > l.exchange THEN j.at_us END) AS back_us,
        min(CASE WHEN j.exchange > l.exchange THEN j.seen_at END) AS back_at
    FROM left_group AS l
    LEFT JOIN joined AS j ON j.connection_id = l.connection_id AND j.group_id = l.group_id
    GROUP BY
        l.client_id, l.client_address, l.software, l.cluster, l.group_id, l.member_id, l.group_instance_id, l.reason, l.says_so,
        l.seen_at, l.at_us, l.connection_id, l.exchange
)
SELECT *
FROM matched
