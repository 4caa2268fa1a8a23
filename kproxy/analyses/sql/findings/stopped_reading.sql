/*
id: stopped_reading
title: Members that keep partitions which they do not read
severity: warning
meaning: >
  The member's heartbeats go on, so its group thinks that it is well and gives its partitions to nobody else; but it has not asked
  for records for long, while new ones came into its partitions. It stands still in its handler (a call without a timeout, a
  lock), or has paused its partitions, or one of them, and not resumed it. Libraries that fetch far in advance, as librdkafka,
  show it only where partitions are paused.
basis:
  rests_on: heartbeats and Fetch requests of the member, and records that were produced to its partitions meanwhile
  certainty: inferred
  wrong_if: it fetches over connections that were not captured, or a quota or its own design makes it wait
columns:
  seconds: without a Fetch of these partitions, while heartbeats went on
  records: produced meanwhile to the partitions that it has
  partitions: that it has and to which these were produced
  state: "what it does otherwise: it fetches nothing, it fetches from its other partitions, or it fetches again"
action: Look at what its threads do (a thread dump), set timeouts on what the handler calls, and resume partitions that are paused.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.interval.ms
parameters:
  min_seconds: {default: 30, meaning: "Shorter times without a Fetch are not listed; twice as long if it reads again. It has to be twice the longest time before, too."}
  ms_a_record: {default: 1000, meaning: "A member that may still be busy with the records that it got last, at so many milliseconds for each, is not listed."}
  min_records: {default: 10, meaning: "Members whose partitions got fewer records meanwhile are not listed."}
sampled: Its Fetch requests may be among the exchanges that are missing.
verdict: "{rows:member keeps partitions that it has stopped reading/members keep partitions that they have stopped reading}. {most records}: {client_id} at {client_address} in group {group_id} sent heartbeats but did not fetch from {partitions:partition/partitions} of its own for {seconds:,} s, while {records:record/records} came there; {state}. Look at what its handler waits for, and at what it paused."
order: 14
only_if: >-
  FROM exchanges WHERE api_key IN (1, 12, 68)
  HAVING count(CASE WHEN api_key <> 1 THEN 1 END) >= 3
    AND max(epoch_us(coalesce(request_at, response_at))) - min(epoch_us(response_at)) >= $min_seconds * 1000000
frame:
  group_by: [client_id, client_address, cluster, group_id, member_id]
  values:
    seconds: max(seconds)
    records: greatest(max(records), CAST(sum(CASE WHEN unread IS NOT NULL THEN records END) AS BIGINT))
    partitions: greatest(max(partitions), count(DISTINCT unread))
    state: max_by(state, records)
    first_at: min(first_at)
    last_at: max(last_at)
  having: seconds >= $min_seconds AND records >= $min_records
  order_by: records DESC
*/
WITH fetches AS (
    SELECT client_id, client_address, cluster, at_us, coalesce(epoch_us(response_at), 9000000000000000) AS answered_us, software, connection_id,
        exchange, coalesce(records, 0) AS got
    FROM client_exchanges
    WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 AND (coalesce(fetch_session_epoch, 0) <> -1 OR coalesce(fetch_session_id, 0) = 0) -- which ends a session, if there is one
), gaps AS (
    SELECT client_id, client_address, cluster, software, connection_id, exchange,
        max(answered_us) OVER of_client AS from_us,
        sum(got) OVER (PARTITION BY client_id, client_address, cluster ORDER BY at_us, connection_id, exchange ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
            AS in_hand,
        lead(at_us) OVER (PARTITION BY client_id, client_address, cluster ORDER BY at_us, connection_id, exchange) AS until_us
    FROM fetches
    WINDOW of_client AS (
        PARTITION BY client_id, client_address, cluster ORDER BY at_us, connection_id, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), compared AS (
    SELECT *, max(until_us - from_us) OVER (
            PARTITION BY client_id, client_address, cluster ORDER BY from_us, connection_id, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_us
    FROM gaps
), brought AS (
    SELECT client_id, client_address, cluster, topic, partition, at_us, sum(sum(count)) OVER (
            PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS in_hand
    FROM client_batches
    WHERE direction = 'fetch' AND coalesce(replica_id, -1) < 0
    GROUP BY client_id, client_address, cluster, topic, partition, at_us
), read AS ( -- partitions that brought records; one that is read from another replica brings none here
    SELECT o.*, b.in_hand
    FROM (
        SELECT client_id, client_address, cluster, topic, partition, max(at_us) AS last_us,
            max(max(at_us)) OVER (PARTITION BY client_id, client_address, cluster) AS last_of_all_us
        FROM client_offsets
        WHERE kind = 'fetch' AND replica_id < 0
        GROUP BY client_id, client_address, cluster, topic, partition
    ) AS o
    JOIN (
        SELECT client_id, client_address, cluster, topic, partition, max_by(in_hand, at_us) AS in_hand
        FROM brought
        GROUP BY client_id, client_address, cluster, topic, partition
    ) AS b ON b.client_id IS NOT DISTINCT FROM o.client_id AND b.client_address = o.client_address AND b.cluster = o.cluster
        AND b.topic = o.topic AND b.partition = o.partition
    WHERE o.last_of_all_us - o.last_us >= $min_seconds * 1000000 -- most are read to the end
), unread AS ( -- that have a record which their last Fetch came before: a Fetch that includes the partition would bring it
    SELECT r.client_id, r.client_address, r.cluster, r.in_hand, r.topic || '-' || CAST(r.partition AS VARCHAR) AS partition, min(p.at_us) AS from_us
    FROM read AS r
    JOIN client_batches AS p ON p.cluster = r.cluster AND p.direction = 'produce' AND coalesce(p.error_code, 0) = 0
        AND p.topic = r.topic AND p.partition = r.partition AND p.at_us > r.last_us
    GROUP BY r.client_id, r.client_address, r.cluster, r.in_hand, r.topic, r.partition
), long_gaps AS ( -- a slow consumer has many that are alike, and comes back
    SELECT client_id, client_address, cluster, software, from_us, until_us, before_us, in_hand, NULL AS unread
    FROM compared
    WHERE until_us IS NULL OR until_us - from_us >= 2 * greatest($min_seconds * 1000000, coalesce(before_us, 0))
    UNION ALL
    SELECT u.client_id, u.client_address, u.cluster, min(f.software), u.from_us, NULL, NULL, u.in_hand, u.partition
    FROM unread AS u
    JOIN fetches AS f ON f.client_id IS NOT DISTINCT FROM u.client_id AND f.client_address = u.client_address AND f.cluster = u.cluster
    GROUP BY u.client_id, u.client_address, u.cluster, u.from_us, u.in_hand, u.partition
    HAVING max(f.at_us) - u.from_us >= $min_seconds * 1000000 -- while it fetched from others
), beats AS (
    SELECT g.client_id, g.client_address, g.cluster, g.software, g.from_us, g.until_us, g.unread, b.group_id, b.member_id,
        max(b.generation_id) AS generation, max(b.at_us) AS last_us, max(b.seen_at) AS last_at,
        min(example_of(b.at_us, b.connection_id, b.exchange)) AS example, count(*) AS beats
    FROM long_gaps AS g
    JOIN client_exchanges AS b ON b.client_id IS NOT DISTINCT FROM g.client_id AND b.client_address = g.client_address AND b.cluster = g.cluster
        AND b.api_key IN (12, 68) AND b.response_at IS NOT NULL AND len(b.error_codes) = 0 AND b.at_us > g.from_us
        AND (g.until_us IS NULL OR b.at_us < g.until_us)
    GROUP BY g.client_id, g.client_address, g.cluster, g.software, g.from_us, g.until_us, g.unread, b.group_id, b.member_id
    HAVING count(*) >= 3 AND max(b.at_us) - g.from_us >= greatest($min_seconds * 1000000, coalesce(2 * max(g.before_us), 0), max(g.in_hand) * $ms_a_record * 1000)
), written AS (
    SELECT b.cluster, b.group_id, b.from_us, b.member_id, b.unread, CAST(sum(p.count) AS BIGINT) AS records, count(DISTINCT o.partition) AS partitions
    FROM beats AS b
    JOIN group_owners AS o ON o.member_id = b.member_id AND o.generation = b.generation AND o.partition = coalesce(b.unread, o.partition)
    JOIN group_lives AS l ON l.group_key = o.group_key AND l.cluster = b.cluster AND l.group_id = b.group_id
    JOIN client_batches AS p ON p.cluster = b.cluster AND p.direction = 'produce' AND coalesce(p.error_code, 0) = 0
        AND p.topic || '-' || CAST(p.partition AS VARCHAR) = o.partition AND p.at_us BETWEEN b.from_us AND b.last_us
    GROUP BY b.cluster, b.group_id, b.from_us, b.member_id, b.unread
)
SELECT b.client_id, b.client_address, b.cluster, b.software, b.group_id, b.member_id,
    make_timestamptz(b.from_us) AS first_at, b.last_at, make_timestamptz(b.from_us) AS seen_at, b.from_us AS at_us, b.example.connection_id AS connection_id, b.example.exchange AS exchange,
    (b.last_us - b.from_us) // 1000000 AS seconds, w.records, w.partitions, b.unread,
    CASE WHEN b.unread IS NOT NULL THEN 'it fetches from its other partitions' WHEN b.until_us IS NULL THEN 'it fetches nothing' ELSE 'it fetches again' END AS state
FROM beats AS b
JOIN written AS w ON w.cluster = b.cluster AND w.group_id = b.group_id AND w.from_us = b.from_us AND w.member_id = b.member_id
    AND w.unread IS NOT DISTINCT FROM b.unread
WHERE b.until_us IS NULL OR NOT EXISTS ( -- it polled too late, left and came back: max_poll_exceeded says so
    SELECT 1 FROM group_events AS g
    WHERE g.event = 'leave' AND g.group_id = b.group_id AND g.member_id = b.member_id AND epoch_us(g.request_at) BETWEEN b.from_us AND b.until_us)
