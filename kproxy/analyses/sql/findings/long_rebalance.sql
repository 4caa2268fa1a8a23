/*
id: long_rebalance
title: Rebalances that waited for one busy member
severity: warning
meaning: >
  A rebalance of the classic protocol ends when each member has joined again, or when the time is over that it may take
  (max.poll.interval.ms). A member that handles records joins when it polls next; until then the others, which have given up their
  partitions, read nothing. Then its leader assigns the partitions (SyncGroup); a leader that joins and stands still keeps the others waiting
  until its session is over. In KIP-848's protocol a member gives up partitions when it polls next; until then nobody reads them, and the
  member that is to have them waits.
basis:
  rests_on: JoinGroup requests of the members, and when they were answered; what members of KIP-848's protocol say they have in heartbeats
  certainty: said
  wrong_if: the others used a cooperative assignor, and went on with the partitions that they kept
columns:
  group_id: ""
  generation: that was formed
  seconds: that another member waited for this one
  members: in the generation
  waited_for: "join again, give up partitions, or assign partitions"
  cluster: ""
action: Where it did not assign, look for what stops that process. Else have the member handle fewer records at a time (max.poll.records), or in another thread; cooperative-sticky or KIP-848 lets the others go on with the partitions that they keep.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.records
parameters:
  min_seconds: {default: 8, meaning: "Rebalances that waited for less long are not listed."}
verdict: "{rows:rebalance/rebalances} in which a group waited for one busy member. {most seconds}: group {group_id}, of {members:member/members}, waited {seconds:,} s for {client_id} at {client_address} to {waited_for}. [{rows where waited_for=assign partitions:?}Look for what stops that process|Give it fewer records at a time (max.poll.records)]."
order: 15
only_if: >-
  FROM group_events
  WHERE (event = 'join' AND group_type = 'classic' AND epoch_ms(seen_at) - epoch_ms(request_at) >= $min_seconds * 1000)
    OR (event = 'sync' AND NOT is_leader AND epoch_ms(seen_at) - epoch_ms(request_at) >= $min_seconds * 1000)
    OR (event = 'heartbeat' AND group_type = 'consumer' AND owned IS NOT NULL AND generation < response_generation)
frame:
  order_by: seconds DESC
*/
SELECT * FROM awaited_members WHERE seconds >= $min_seconds
