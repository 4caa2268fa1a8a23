/*
id: max_poll_exceeded
title: Consumers that left their group because they did not poll in time
severity: warning
meaning: >
  The application took longer than max.poll.interval.ms (5 minutes by default) between two polls, so the client left the group by
  itself. Its partitions moved, and what it was handling will be handled again. Java's consumer gives this reason when it leaves. For
  other clients it is inferred: they leave and join again on the same connection, a while later; or they leave later than that after their
  last Fetch, and stay away while their connection stays open. A static member does not leave: it falls
  silent, and joins on its connection as a new one though nobody had refused it, later than max.poll.interval.ms after its last Fetch.
basis:
  rests_on: the reason in LeaveGroup, or a leave and a join, or two joins of a static member, on one connection (column evidence)
  certainty: inferred
  wrong_if: the application closed its consumer, or left by itself, and came back
columns:
  group_id: ""
  member_id: ""
  group_instance_id: of a static member (KIP-345)
  evidence: "stated: the client gave the reason; inferred: it left without one and came back on the same connection, or stayed away with an open connection, or it is static and fell silent before that"
  reason: as the client gave it
  rebalance_timeout_ms: max.poll.interval.ms, in milliseconds
  away_ms: milliseconds from leaving to joining again; empty if it did not
  cluster: ""
action: >
  Take fewer records per poll (max.poll.records), handle them faster or on another thread, or raise max.poll.interval.ms.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
parameters:
  min_away_ms: {default: 1000, meaning: "A client that leaves without a reason, and joins again sooner on the same connection, is not listed."}
sampled: A member that was away for long may have asked in between, in an exchange that is missing.
verdict: "{rows:time/times} a consumer left its group because it polled too late. First: {client_id} at {client_address} in group {group_id} ({evidence}), max.poll.interval.ms={rebalance_timeout_ms:d}. Lower max.poll.records or raise max.poll.interval.ms."
order: 20
only_if: FROM group_events WHERE (event = 'join' AND group_instance_id <> '') OR (event = 'leave' AND (lower(reason) LIKE '%poll%' OR reason IS NULL))
frame:
  derived:
    evidence: CASE WHEN says_so = 1 THEN 'stated' ELSE 'inferred' END
    away_ms: round((back_us - at_us) / 1000, 0)
    first_at: seen_at
    last_at: coalesce(back_at, seen_at)
  having: says_so = 1 OR stays_away OR back_us - at_us >= $min_away_ms * 1000
  order_by: says_so DESC, first_at, group_id, member_id, connection_id, exchange, cluster
*/
SELECT * FROM late_polls
