/*
id: long_rebalance
title: Rebalances in which all waited for one member
severity: warning
meaning: >
  A rebalance of the classic protocol ends when each member has joined again, or when the time is over that it may take
  (max.poll.interval.ms). A member that handles records joins when it polls next; until then the others, which have given up their
  partitions, read nothing.
basis:
  rests_on: JoinGroup requests of the members, and when they were answered
  certainty: said
  wrong_if: the others used a cooperative assignor, and went on with the partitions that they kept
columns:
  group_id: ""
  generation: that was formed
  seconds: that the first member waited for this one
  members: in the generation
  cluster: ""
action: Have the member handle fewer records at a time (max.poll.records), or in another thread; cooperative-sticky or KIP-848 lets the others go on.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.records
parameters:
  min_seconds: {default: 8, meaning: "Rebalances that waited for less long are not listed."}
verdict: "{rows:rebalance/rebalances} in which a group waited for one busy member. {most seconds}: group {group_id} waited {seconds:,} s for {client_id} at {client_address}, the last of {members:member/members} to join again. Give it fewer records at a time (max.poll.records)."
order: 15
only_if: FROM group_events WHERE event = 'join' AND group_type = 'classic' AND epoch_ms(seen_at) - epoch_ms(request_at) >= $min_seconds * 1000
frame:
  order_by: seconds DESC
*/
WITH joins AS (
    SELECT group_key, response_generation AS generation, group_id, cluster, client_id, client_address, software, member_id,
        epoch_us(request_at) AS asked_us, epoch_us(seen_at) AS known_us, request_at AS seen_at, at_us, seen_at AS last_at, connection_id, exchange,
        protocol
    FROM client_group_events
    WHERE event = 'join' AND group_type = 'classic' AND error_code = 0 AND response_generation IS NOT NULL AND request_at IS NOT NULL
), ranked AS (
    SELECT *,
        row_number() OVER (PARTITION BY group_key, generation ORDER BY asked_us DESC, connection_id, exchange) AS latest,
        min(asked_us) OVER (PARTITION BY group_key, generation) AS first_us,
        max(known_us) OVER (PARTITION BY group_key, generation) AS formed_us,
        count(DISTINCT member_id) OVER (PARTITION BY group_key, generation) AS members
    FROM joins
)
SELECT r.*, make_timestamptz(r.first_us) AS first_at, (r.asked_us - r.first_us) // 1000000 AS seconds
FROM ranked AS r
WHERE r.latest = 1 AND r.members > 1
    AND r.asked_us - r.first_us >= $min_seconds * 1000000
    AND r.formed_us - r.asked_us < 1000000 -- else it waited for yet another one
    AND coalesce(r.protocol, '') NOT LIKE 'cooperative%'
    AND EXISTS ( -- it was a member before
        SELECT 1 FROM joins AS b WHERE b.group_key = r.group_key AND b.member_id = r.member_id AND b.generation < r.generation)
