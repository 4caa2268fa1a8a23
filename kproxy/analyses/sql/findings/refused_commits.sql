/*
id: refused_commits
title: Commits that came too late
severity: warning
meaning: >
  The group refused the commit because the member no longer belongs to it (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
  FENCED_MEMBER_EPOCH; see static_member_flapping for FENCED_INSTANCE_ID): it was away too long, or a rebalance took its
  partitions. What it had handled since its last commit is handled again by another member. Members that session_expired or
  max_poll_exceeded name are left out.
basis:
  rests_on: errors in answers to OffsetCommit
  certainty: said
  wrong_if: what was read had been committed before
columns:
  severity: "notice: after the broker that coordinated the group went away, which broker_away says; else warning"
  after: broker that went away in the minute before; none
  commits: commits that the coordinator refused
  error_name: ""
action: >
  Lower max.poll.records or raise max.poll.interval.ms so that handling ends before the group gives up; commit in the rebalance
  listener when partitions are revoked.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
parameters:
  min_commits: {default: 1, meaning: "Fewer refused commits of a member are not listed."}
verdict: "{rows:member/members} with commits refused. {most commits}: {client_id} at {client_address} in group {group_id}, {commits:time/times} {error_name}[, after {after} went away]. It was no longer in its group, and what it read is handled twice. See why: kproxy report --only rebalances."
order: 23
only_if: FROM group_events WHERE event = 'commit' AND error_code IN (22, 25, 110)
frame:
  group_by: [client_id, client_address, cluster, group_id, member_id, error_name]
  values:
    commits: count(*)
    after: CASE WHEN count(away) = count(*) THEN max(away) END
  derived: {severity: CASE WHEN after IS NULL THEN 'warning' ELSE 'notice' END}
  having: commits >= $min_commits
  order_by: severity DESC, commits DESC
*/
SELECT g.*, (
        SELECT max(a.broker) FROM broker_absences AS a
        WHERE a.cluster = g.cluster AND g.at_us BETWEEN a.went_us AND coalesce(a.back_us, a.until_us) + 60000000
            AND EXISTS (
                FROM client_exchanges AS e
                WHERE e.client_id IS NOT DISTINCT FROM g.client_id AND e.client_address = g.client_address AND e.cluster = a.cluster
                    AND e.node = a.broker AND e.group_id = g.group_id AND e.api_key IN (8, 11, 12, 14, 68) AND e.at_us <= a.last_us)
    ) AS away
FROM client_group_events AS g
WHERE event = 'commit' AND error_code IN (22, 25, 110)
    AND NOT EXISTS (FROM expired_members AS x WHERE x.group_key = g.group_key AND x.member_id = g.member_id AND x.at_us <= g.at_us + 60000000)
    AND NOT EXISTS (
        FROM late_polls AS p
        WHERE p.cluster = g.cluster AND p.group_id = g.group_id AND p.member_id = g.member_id AND p.at_us <= g.at_us)
