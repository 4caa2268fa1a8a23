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
  having: says_so = 1 OR (coalesce(reason, '') = '' AND (back_us - at_us >= $min_away_ms * 1000 OR stays_away))
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
SELECT m.*,
    m.back_us IS NULL AND m.at_us - (
        SELECT max(f.at_us) FROM client_exchanges AS f
        WHERE f.api_key = 1 AND f.client_id IS NOT DISTINCT FROM m.client_id AND f.client_address = m.client_address
    ) >= CAST(m.rebalance_timeout_ms AS BIGINT) * 1000 - 1000000 -- the last Fetch waited for records, while the application polled
        AND c.last_seen_us - m.at_us >= 10000000 AND coalesce(c.closed_us, c.last_seen_us) - m.at_us >= 10000000 AS stays_away
FROM matched AS m
JOIN client_connections AS c ON c.connection_id = m.connection_id
UNION ALL
SELECT s.client_id, s.client_address, s.software, s.cluster, s.group_id, s.member_id, s.group_instance_id, CAST(NULL AS VARCHAR), 0,
    b.last_at, b.last_us, s.connection_id, b.exchange, s.rebalance_timeout_ms, s.back_us, s.back_at, false
FROM (
    SELECT *, lead(member_id) OVER of_instance AS next_member, lead(at_us) OVER of_instance AS back_us, lead(seen_at) OVER of_instance AS back_at
    FROM client_group_events
    WHERE event = 'join' AND group_instance_id <> '' AND coalesce(error_code, 0) = 0
    WINDOW of_instance AS (PARTITION BY group_key, connection_id, group_instance_id ORDER BY at_us, exchange)
) AS s
JOIN (
    SELECT connection_id, member_id, max(seen_at) AS last_at, max(at_us) AS last_us, max_by(exchange, at_us) AS exchange
    FROM client_exchanges
    WHERE api_key IN (12, 14)
    GROUP BY connection_id, member_id
    HAVING count(CASE WHEN len(error_codes) > 0 AND error_name <> 'REBALANCE_IN_PROGRESS' THEN 1 END) = 0
) AS b ON b.connection_id = s.connection_id AND b.member_id = s.member_id
WHERE s.next_member <> s.member_id AND s.back_us - (
    SELECT max(f.at_us) FROM client_exchanges AS f
    WHERE f.api_key = 1 AND f.client_id IS NOT DISTINCT FROM s.client_id AND f.client_address = s.client_address AND f.at_us < s.back_us
) >= CAST(s.rebalance_timeout_ms AS BIGINT) * 1000
