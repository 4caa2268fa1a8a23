/*
id: session_expired
title: Members that their group had thrown out while they still ran
severity: warning
meaning: >
  A heartbeat, SyncGroup or commit was answered with UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH although the member had not left: no
  heartbeat had arrived within session.timeout.ms, or it did not join a rebalance in time, so the group went on without it. What
  it had handled since its last commit is handled again. Its process stood still (garbage collection, a paused container, a busy
  processor), or the network was cut. Where that comes within seconds of its join, no timeout can have passed: another process uses the
  same member id, as a copy of it does, or something removes the members. A static member whose group.instance.id another one took is left out: see
  static_member_flapping.
basis:
  rests_on: UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH in answers to members that had not left
  certainty: said
  wrong_if: an administrator removed the member, or it left over a connection that was not captured
columns:
  group_id: ""
  member_id: ""
  error_name: ""
  session_timeout_ms: session.timeout.ms, in milliseconds; empty if it was not captured, or the broker sets it
  times: joins of this member after which it was thrown out
  advice: what to look for
  silence_ms: milliseconds from the member's request before to the refused one
  cluster: ""
action: Look at pauses of that process and at its network at this time, and at its handler where the client has no thread for heartbeats (kafkajs); raise session.timeout.ms (45 s by default) if pauses are normal there.
reference: https://kafka.apache.org/documentation/#consumerconfigs_session.timeout.ms
parameters:
  min_silence_ms: {default: 0, meaning: "Members whose last heartbeat before was nearer than this are not listed."}
sampled: That the member left by itself may be in an exchange that is missing.
verdict: "{sum times:time/times} a member that still ran was removed from its group. First: {client_id} at {client_address} in {group_id}, {error_name}[, {silence_ms:ms} after its last request to the group]. Look for {advice:200}."
order: 22
only_if: FROM group_events WHERE event IN ('heartbeat', 'sync', 'commit') AND error_code IN (25, 110)
frame:
  derived:
    silence_ms: (at_us - before_us) // 1000
    first_at: seen_at
    last_at: seen_at
    advice: >-
      CASE WHEN at_us - joined_us < 5000000 AND error_name = 'FENCED_MEMBER_EPOCH'
      THEN 'another process with the same member id, something that removes members, or a coordinator that lost the group: no timeout passes so soon after a join'
      ELSE 'a pause of that process (garbage collection, CPU, container), a handler that blocks heartbeats, or a cut network' END
  having: coalesce(at_us - before_us, 0) >= $min_silence_ms * 1000
  order_by: first_at, group_key, member_id, connection_id, exchange
*/
SELECT * FROM expired_members
