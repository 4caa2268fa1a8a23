/*
id: falling_behind
title: Consumers that fall behind, because of themselves, of the broker or of a quota
severity: warning
meaning: >
  What the consumer has handled stays further and further behind the end of the topic: more is produced than it handles. Where it has
  fetched most of what it is behind by, the consumer is slow (its processing, or a database behind it). Where it leaves the broker
  alone for most of the time, it is, or the network to it, where the capture is from the broker. Where its fetches bring a part of
  what is there, and it waits for their answers for most of the time, the broker or the network is; or the broker's followers are, where
  records were acknowledged (acks=1) and the high watermark stays below them. Where the broker throttles it for
  most of the time, its quota is the cause. Where none is clear, it is not listed.
basis:
  rests_on: committed offsets (or fetches, without commits) next to the ends of partitions, and the times of its fetches
  certainty: inferred
  wrong_if: another member of its group handles these partitions, or it commits later than it handles
columns:
  cause: "consumer, perhaps its network: it handles, or gets, records too slowly; broker: it waits for answers to Fetch, for the broker or the network; quota: the broker throttles it"
  topic: ""
  lag: offsets behind the end at its last commit or fetch
  behind_seconds: for how long the next record had been there then, in seconds
  watched_seconds: length of the time over which it fell behind, in seconds
  partitions: number of partitions on which it falls behind
  fetched: of the lag, offsets that it had fetched already
  waiting_percent: share of that time in which it waited for answers that brought a part of what was there, or took long to bring it
  throttled_percent: share of that time for which answers to Fetch throttled it
  idle_percent: share of that time in which it had no Fetch at a broker
action: >
  consumer: look at what it does with a record; add members (up to one per partition), or handle records in parallel. broker: see
  latency for Fetch, and small_fetches. quota: raise its consumer_byte_rate or request_percentage, or have it read less.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.poll.records
parameters:
  min_behind_seconds: {default: 10, meaning: "Consumers that are less behind, beyond what their fetches wait for records, or were watched for a shorter time, are not listed."}
  min_percent: {default: 60, most: 100, meaning: "Share of the lag, or of the time, from which a cause is clear."}
sampled: Later commits and fetches may be among the exchanges that are missing.
verdict: "{rows:consumer falls/consumers fall} behind[{rows where cause=broker:?} ({rows where cause=broker} because of the broker)]. Worst: {client_id} at {client_address} on {topic}, {lag:,} offsets and {behind_seconds:,} s behind, cause: {cause}[{rows where cause=consumer or its network:?}. Look at what it does with a record, and at its network|[{rows where cause=consumer:?}. Look at what it does with a record]][{rows where cause=broker:?}. Look at why that broker answers Fetch late, or its high watermark stands still: its disk, its requests, its followers, the network][{rows where cause=quota:?}. Raise its quota, or have it read less]."
order: 44
only_if: >-
  FROM offsets
  HAVING count(CASE WHEN kind = 'fetch' AND high_watermark > partition_offset THEN 1 END) >= 3
    AND max(epoch_us(seen_at)) - min(epoch_us(seen_at)) >= $min_behind_seconds * 1000000
frame:
  group_by: [client_id, client_address, cluster, topic, cause]
  values:
    lag: CAST(sum(lag) AS BIGINT)
    behind_seconds: max(behind_us) // 1000000
    watched_seconds: max(until_us - since_us) // 1000000
    partitions: count(*)
    fetched: CAST(sum(fetched) AS BIGINT)
    waiting_percent: CAST(round(100 * max(waiting_share)) AS BIGINT)
    throttled_percent: CAST(round(100 * least(max(throttled_share), 1)) AS BIGINT)
    idle_percent: CAST(round(100 * max(idle_share)) AS BIGINT)
    first_at: make_timestamptz(min(CASE WHEN cause = 'broker' THEN coalesce(fetched_late_us, handled_late_us) ELSE handled_late_us END))
    last_at: make_timestamptz(max(until_us))
  is_summed: true
  order_by: behind_seconds DESC, lag DESC
*/
WITH reads AS (
    SELECT f.client_id, f.client_address, f.software, f.cluster, f.topic, f.partition, f.connection_id, f.exchange,
        epoch_us(e.response_at) AS at_us, epoch_us(e.response_at) - epoch_us(e.request_at) AS took_us,
        f.position, f.high_watermark, coalesce(e.records, 0) AS records, coalesce(e.max_wait_ms, 0) AS max_wait_ms
    FROM fetch_positions AS f
    JOIN exchanges AS e ON e.connection_id = f.connection_id AND e.exchange = f.exchange
    WHERE f.error_code = 0 AND f.position IS NOT NULL AND f.high_watermark >= 0 AND e.request_at IS NOT NULL AND e.response_at IS NOT NULL
), steps AS NOT MATERIALIZED ( -- what a consumer had handled, when: what it committed, and what it had before a Fetch
    SELECT 'fetch' AS kind, connection_id AS life, client_id, client_address, cluster, topic, partition, at_us, position AS handled, connection_id, exchange
    FROM reads
    UNION ALL
    SELECT kind, group_id, client_id, client_address, cluster, topic, partition, at_us, partition_offset, connection_id, exchange
    FROM client_offsets
    WHERE kind = 'commit' AND error_code = 0 AND partition_offset >= 0
    UNION ALL -- where it began, if it has one group
    SELECT 'commit', g.group_id, r.client_id, r.client_address, r.cluster, r.topic, r.partition, min(r.at_us), min_by(r.position, r.at_us),
        min_by(r.connection_id, r.at_us), min_by(r.exchange, r.at_us)
    FROM reads AS r
    JOIN (
        SELECT client_id, client_address, cluster, min(group_id) AS group_id
        FROM client_offsets
        WHERE kind = 'commit'
        GROUP BY client_id, client_address, cluster
        HAVING count(DISTINCT group_id) = 1
    ) AS g ON g.client_id IS NOT DISTINCT FROM r.client_id AND g.client_address = r.client_address AND g.cluster = r.cluster
    GROUP BY g.group_id, r.client_id, r.client_address, r.cluster, r.topic, r.partition
), seen AS NOT MATERIALIZED (
    SELECT cluster, topic, partition, high_watermark AS end_offset, at_us FROM reads
    UNION ALL
    SELECT c.cluster, b.topic, b.partition, b.appended_offset + b.count, epoch_us(b.seen_at)
    FROM record_batches AS b
    JOIN client_connections AS c ON c.connection_id = b.connection_id
    WHERE b.direction = 'produce' AND b.appended_offset >= 0 AND b.error_code = 0
), suspects AS ( -- what follows is for those that had an offset before them for long at their last step
    SELECT DISTINCT s.kind, s.life, s.client_id, s.client_address, s.cluster, s.topic, s.partition
    FROM (
        SELECT kind, life, client_id, client_address, cluster, topic, partition,
            max(struct_pack(at_us := at_us, left_over := -handled)) AS latest
        FROM steps
        GROUP BY kind, life, client_id, client_address, cluster, topic, partition
        HAVING count(*) >= 3 AND max(at_us) - min(at_us) >= $min_behind_seconds * 1000000
    ) AS s
    JOIN seen AS e ON e.cluster = s.cluster AND e.topic = s.topic AND e.partition = s.partition
        AND e.end_offset > -s.latest.left_over AND e.at_us <= s.latest.at_us - $min_behind_seconds * 1000000
), ends AS (
    SELECT cluster, topic, partition, end_offset, min(at_us) AS at_us
    FROM seen
    WHERE EXISTS (SELECT 1 FROM suspects AS s WHERE s.cluster = seen.cluster AND s.topic = seen.topic AND s.partition = seen.partition)
    GROUP BY cluster, topic, partition, end_offset
), known_ends AS (
    SELECT cluster, topic, partition, at_us,
        max(end_offset) OVER (
            PARTITION BY cluster, topic, partition ORDER BY at_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS end_offset
    FROM ends
), behind AS (
    SELECT s.*, greatest(k.end_offset - s.handled, 0) AS lag,
        s.handled - lag(s.handled) OVER (
            PARTITION BY s.kind, s.life, s.client_id, s.client_address, s.cluster, s.topic, s.partition ORDER BY s.at_us, s.exchange) AS step
    FROM steps AS s
    JOIN suspects AS u ON u.kind = s.kind AND u.life = s.life AND u.client_id IS NOT DISTINCT FROM s.client_id
        AND u.client_address = s.client_address AND u.cluster = s.cluster AND u.topic = s.topic AND u.partition = s.partition
    ASOF JOIN known_ends AS k ON k.cluster = s.cluster AND k.topic = s.topic AND k.partition = s.partition AND k.at_us <= s.at_us
), series AS ( -- the lag grows, and the consumer never went back
    SELECT kind, life, client_id, client_address, cluster, topic, partition,
        min(at_us) AS since_us, max(at_us) AS until_us,
        max(struct_pack(nearness := -lag, at_us := at_us, handled := handled)) AS nearest, -- the last time that it was as near the end
        max_by(lag, at_us) AS lag, max_by(handled, at_us) AS handled,
        max(struct_pack(at_us := at_us, connection_id := connection_id, exchange := exchange)) AS example
    FROM behind
    GROUP BY kind, life, client_id, client_address, cluster, topic, partition
    HAVING count(*) >= 3 AND max(at_us) - min(at_us) >= $min_behind_seconds * 1000000
        AND min(coalesce(step, 0)) >= 0 AND corr(lag, at_us) >= 0.8 AND max_by(lag, at_us) > min_by(lag, at_us)
), waits AS ( -- for how long its fetches wait for records by its own choice
    SELECT client_id, client_address, cluster, max(CAST(max_wait_ms AS BIGINT)) AS wait_ms FROM reads GROUP BY client_id, client_address, cluster
), late AS ( -- and the next record has been there for long
    SELECT s.*, s.until_us - e.at_us AS behind_us,
        max(CASE WHEN s.kind = 'fetch' THEN greatest(b.at_us, s.nearest.at_us) END) OVER (
            PARTITION BY s.client_id, s.client_address, s.cluster, s.topic, s.partition) AS fetched_late_us,
        greatest(b.at_us, s.nearest.at_us) AS handled_late_us -- the first record that waited
    FROM series AS s
    ASOF JOIN ends AS b ON b.cluster = s.cluster AND b.topic = s.topic AND b.partition = s.partition AND b.end_offset > s.nearest.handled
    ASOF JOIN ends AS e ON e.cluster = s.cluster AND e.topic = s.topic AND e.partition = s.partition AND e.end_offset > s.handled
    JOIN waits AS w ON w.client_id IS NOT DISTINCT FROM s.client_id AND w.client_address = s.client_address AND w.cluster = s.cluster
    WHERE s.until_us - e.at_us >= $min_behind_seconds * 1000000 + w.wait_ms * 1000
        AND NOT (s.kind = 'fetch' AND EXISTS ( -- it went on over another connection: an answer came long after its request
            SELECT 1 FROM reads AS r
            WHERE r.client_id IS NOT DISTINCT FROM s.client_id AND r.client_address = s.client_address AND r.cluster = s.cluster
                AND r.topic = s.topic AND r.partition = s.partition AND r.at_us < s.until_us AND r.position > s.handled))
    QUALIFY row_number() OVER (
        PARTITION BY s.client_id, s.client_address, s.cluster, s.topic, s.partition ORDER BY s.kind, s.until_us DESC, s.life) = 1
), fetches AS ( -- each Fetch once, and whether more was there than it brought, or it took far longer than it may wait for records
    SELECT client_id, client_address, cluster, connection_id, exchange, max(at_us) AS at_us, max(took_us) AS took_us,
        max(software) AS software, CASE WHEN max(records) > 0
            THEN sum(greatest(high_watermark - position, 0)) > 1.5 * max(records) OR max(took_us) >= 1000 * CAST(max(max_wait_ms) AS BIGINT) + 1000000
            ELSE max(high_watermark - position) <= 0 END AS is_part -- what is acknowledged is above the high watermark: followers lag
    FROM reads
    WHERE EXISTS (
        SELECT 1 FROM late AS l
        WHERE l.client_id IS NOT DISTINCT FROM reads.client_id AND l.client_address = reads.client_address AND l.cluster = reads.cluster)
    GROUP BY client_id, client_address, cluster, connection_id, exchange
), times AS (
    SELECT l.client_id, l.client_address, l.cluster, l.topic, l.partition, max(f.software) AS software,
        sum(f.took_us) / greatest(l.until_us - l.since_us, 1) AS asked_share,
        sum(CASE WHEN f.is_part THEN f.took_us ELSE 0 END) / greatest(l.until_us - l.since_us, 1) AS waiting_share
    FROM late AS l
    JOIN fetches AS f ON f.client_id IS NOT DISTINCT FROM l.client_id AND f.client_address = l.client_address AND f.cluster = l.cluster
        AND f.at_us BETWEEN l.since_us AND l.until_us
    GROUP BY l.client_id, l.client_address, l.cluster, l.topic, l.partition, l.until_us, l.since_us
), throttles AS ( -- an answer that throttles is empty: it names no partition
    SELECT l.client_id, l.client_address, l.cluster, l.topic, l.partition,
        sum(e.throttle_time_ms) * 1000 / greatest(l.until_us - l.since_us, 1) AS throttled_share
    FROM late AS l
    JOIN client_exchanges AS e ON e.client_id IS NOT DISTINCT FROM l.client_id AND e.client_address = l.client_address AND e.cluster = l.cluster
        AND e.api_key = 1 AND e.throttle_time_ms > 0 AND e.at_us BETWEEN l.since_us AND l.until_us
    GROUP BY l.client_id, l.client_address, l.cluster, l.topic, l.partition, l.until_us, l.since_us
), ahead AS (
    SELECT l.client_id, l.client_address, l.cluster, l.topic, l.partition, max(b.base_offset + b.count) AS position
    FROM late AS l
    JOIN client_batches AS b ON b.client_id IS NOT DISTINCT FROM l.client_id AND b.client_address = l.client_address AND b.cluster = l.cluster
        AND b.topic = l.topic AND b.partition = l.partition AND b.direction = 'fetch' AND b.at_us <= l.until_us
    GROUP BY l.client_id, l.client_address, l.cluster, l.topic, l.partition
), judged AS (
    SELECT l.*, t.software, t.waiting_share, greatest(1 - t.asked_share, 0) AS idle_share, coalesce(h.throttled_share, 0) AS throttled_share,
        greatest(least(coalesce(a.position, l.handled) - l.handled, l.lag), 0) AS fetched
    FROM late AS l
    JOIN times AS t ON t.client_id IS NOT DISTINCT FROM l.client_id AND t.client_address = l.client_address AND t.cluster = l.cluster
        AND t.topic = l.topic AND t.partition = l.partition
    LEFT JOIN throttles AS h ON h.client_id IS NOT DISTINCT FROM l.client_id AND h.client_address = l.client_address AND h.cluster = l.cluster
        AND h.topic = l.topic AND h.partition = l.partition
    LEFT JOIN ahead AS a ON a.client_id IS NOT DISTINCT FROM l.client_id AND a.client_address = l.client_address AND a.cluster = l.cluster
        AND a.topic = l.topic AND a.partition = l.partition
    WHERE NOT EXISTS ( -- one whose broker has just gone looks for another one: its handler is not the cause
        SELECT 1 FROM client_connections AS c
        WHERE c.client_id IS NOT DISTINCT FROM l.client_id AND c.client_address = l.client_address AND c.cluster = l.cluster
            AND c.closed_by = 'broker' AND c.closed_us BETWEEN l.until_us - least(l.behind_us, 60000000) - 5000000 AND l.until_us)
), causes AS (
    SELECT *, CAST(NULL AS TIMESTAMPTZ) AS first_at, CAST(NULL AS TIMESTAMPTZ) AS last_at,
        CASE
            WHEN throttled_share * 100 >= $min_percent THEN 'quota'
            WHEN throttled_share >= 0.1 THEN NULL
            WHEN waiting_share * 100 >= $min_percent THEN 'broker'
            WHEN fetched * 100 >= lag * $min_percent THEN 'consumer'
            WHEN idle_share * 100 >= $min_percent THEN 'consumer or its network'
        END AS cause
    FROM judged
)
SELECT *
FROM causes
WHERE cause IS NOT NULL
    AND NOT EXISTS ( -- its group waited for it meanwhile: see long_rebalance
        SELECT 1 FROM awaited_members AS j
        WHERE j.client_id IS NOT DISTINCT FROM causes.client_id AND j.client_address = causes.client_address AND j.cluster = causes.cluster
            AND j.seconds >= 8 AND j.asked_us >= causes.since_us AND j.first_us <= causes.until_us)
