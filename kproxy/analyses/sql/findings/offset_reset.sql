/*
id: offset_reset
title: Consumers that jumped to another offset because theirs was gone
severity: critical
meaning: >
  The consumer fetched from an offset that does not exist (OFFSET_OUT_OF_RANGE), or its group had committed one that the broker has no
  more (offsets.retention.minutes after the last member left), and it went on at another one, by auto.offset.reset.
  Records in between were skipped (a jump forward), or are read again (a jump backward). One that begins beyond the end of the partition has an offset of another
  cluster, of a topic that is gone, or one that never was: it never read what is there, and goes on at the end or at the beginning of it.
  Where it had read up to its offset, the partition was cut off: by an unclean election, or as its topic was made anew. A partition that
  was added while a group was at work has no committed offset; a member that begins at its end skips what came until then. A jump back in a topic that was deleted and
  made again meanwhile is left out: what it had read is not there to be read again.
basis:
  rests_on: OFFSET_OUT_OF_RANGE, or an OffsetFetch without the offset that was committed; and the offset of the next fetch
  certainty: inferred
  wrong_if: another member with the same client id and address made the next fetch
columns:
  severity: "critical: records were skipped; warning: they are read again"
  topic: ""
  partition: ""
  cause: records deleted, committed offset expired, offset beyond the end, partition cut off (the client had read up to that offset), or new partition
  from_offset: the offset that it would have read next
  to_offset: the offset of the next fetch
  records: offsets between the two
  direction: "skipped: forward; reread: backward; not there: backward, from a committed offset beyond the end"
  cluster: ""
action: >
  A jump forward is lost work: find out whether retention deleted the records before they were read, and raise retention.ms or
  speed the consumer up. If the committed offset expired, raise offsets.retention.minutes, or set auto.offset.reset=earliest. A jump backward: make handling twice harmless.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
parameters:
  min_records: {default: 1, meaning: "Shorter jumps are not listed."}
sampled: Fetches between the two offsets may be among the exchanges that are missing.
verdict: "{rows:time/times} a consumer jumped because its offset was gone, or not there yet. Largest jump: {client_id} at {client_address} on {topic}-{partition}, from {from_offset:d} to {to_offset:d}: {records:offset/offsets} {direction}; cause: {cause}[{rows where cause=records deleted:?}. Check retention.ms against its lag, and who deletes records][{rows where cause=committed offset expired:?}. Check offsets.retention.minutes][{rows where cause=partition cut off:?}. Look for an unclean election, or a topic that was made anew][{rows where cause=new partition:?}. Set auto.offset.reset=earliest][{rows where cause=offset beyond the end:?}. Find out who set that offset, and what of the topic was handled]."
order: 13
only_if: >-
  FROM offsets AS o
  WHERE (kind = 'fetch' AND error_code = 1) OR (kind = 'committed' AND ((partition_offset = -1 AND EXISTS (
    SELECT 1
    FROM (SELECT group_id, min(seen_at) AS at FROM offsets WHERE kind = 'commit' AND partition_offset >= 0 GROUP BY group_id) AS k
    WHERE k.group_id = o.group_id AND k.at < o.seen_at)) OR (partition_offset >= 0 AND EXISTS (
    SELECT 1 FROM offsets AS f WHERE f.topic = o.topic AND f.partition = o.partition AND f.log_start_offset > o.partition_offset))))
frame:
  derived:
    severity: CASE WHEN to_offset > partition_offset THEN 'critical' ELSE 'warning' END
    from_offset: partition_offset
    records: abs(to_offset - partition_offset)
    direction: CASE WHEN cause = 'offset beyond the end' THEN 'not there' WHEN to_offset > partition_offset THEN 'skipped' ELSE 'reread' END
    first_at: seen_at
    last_at: next_at
  having: abs(to_offset - partition_offset) >= $min_records AND (to_offset > partition_offset OR NOT is_new)
  order_by: direction DESC, records DESC, first_at, client_id, client_address, topic, partition, connection_id, exchange, cluster
*/
WITH asked AS (
    SELECT *
    FROM client_offsets
    WHERE kind = 'fetch' AND replica_id < 0 AND partition_offset IS NOT NULL
), ordered AS (
    SELECT *,
        lead(partition_offset) OVER of_client AS to_offset,
        lead(error_code) OVER of_client AS next_error_code,
        lead(seen_at) OVER of_client AS next_at,
        max(CASE WHEN error_code = 0 THEN at_us END) OVER of_client AS read_us
    FROM asked
    WINDOW of_client AS (PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us, connection_id, exchange)
), beginnings AS ( -- of topics that were away, or that begin at 0
    SELECT cluster, resource AS topic, at_us
    FROM client_errors
    WHERE resource_type = 'topic' AND error_code IN (3, 100, 103)
    UNION
    SELECT cluster, topic, at_us
    FROM client_batches
    WHERE direction = 'produce' AND appended_offset = 0
    UNION
    SELECT cluster, topic, at_us
    FROM client_exchanges
    CROSS JOIN unnest(topics) AS deleted(topic)
    WHERE api_key = 20 AND len(error_codes) = 0
), deleted AS (
    SELECT client_id, client_address, software, cluster, topic, partition, partition_offset, to_offset,
        CASE WHEN to_offset >= partition_offset THEN 'records deleted' WHEN read_us IS NULL THEN 'offset beyond the end'
            ELSE 'partition cut off' END AS cause,
        seen_at, at_us, next_at, read_us, connection_id, exchange
    FROM ordered AS o
    WHERE error_code = 1 AND next_error_code = 0
    QUALIFY row_number() OVER ( -- it may ask for its old offset once more
        PARTITION BY client_id, client_address, cluster, topic, partition, partition_offset ORDER BY at_us, connection_id, exchange
    ) = 1
), unknown AS ( -- a group has no offset any more that it had committed
    SELECT c.client_id, c.client_address, c.software, c.cluster, c.topic, c.partition, c.seen_at, c.at_us, c.connection_id, c.exchange,
        max_by(k.partition_offset, k.at_us) AS partition_offset, max(k.at_us) AS read_us
    FROM client_offsets AS c
    JOIN client_offsets AS k ON k.cluster = c.cluster AND k.group_id = c.group_id AND k.topic = c.topic AND k.partition = c.partition
        AND k.at_us < c.at_us
    WHERE c.kind = 'committed' AND c.partition_offset = -1 AND c.error_code = 0
        AND k.kind = 'commit' AND k.partition_offset >= 0 AND k.error_code = 0
    GROUP BY c.client_id, c.client_address, c.software, c.cluster, c.topic, c.partition, c.seen_at, c.at_us, c.connection_id, c.exchange
), expired AS (
    SELECT u.client_id, u.client_address, u.software, u.cluster, u.topic, u.partition, u.partition_offset,
        min_by(a.partition_offset, a.at_us) AS to_offset, 'committed offset expired' AS cause,
        u.seen_at, u.at_us, min(a.seen_at) AS next_at, u.read_us, u.connection_id, u.exchange
    FROM unknown AS u
    JOIN asked AS a ON a.client_id IS NOT DISTINCT FROM u.client_id AND a.client_address = u.client_address AND a.cluster = u.cluster
        AND a.topic = u.topic AND a.partition = u.partition AND a.at_us BETWEEN u.at_us AND u.at_us + 60000000
    GROUP BY u.client_id, u.client_address, u.software, u.cluster, u.topic, u.partition, u.partition_offset, u.seen_at, u.at_us, u.read_us,
        u.connection_id, u.exchange
), added AS ( -- a partition that began while the group was at work on others of its topic
    SELECT c.client_id, c.client_address, c.software, c.cluster, c.topic, c.partition, CAST(0 AS BIGINT) AS partition_offset,
        min_by(a.partition_offset, a.at_us) AS to_offset, 'new partition' AS cause,
        c.seen_at, c.at_us, min(a.seen_at) AS next_at, c.at_us AS read_us, c.connection_id, c.exchange
    FROM client_offsets AS c
    JOIN (
        SELECT cluster, topic, partition, min(at_us) AS at_us
        FROM client_batches WHERE direction = 'produce' AND appended_offset = 0 GROUP BY cluster, topic, partition
    ) AS b ON b.cluster = c.cluster AND b.topic = c.topic AND b.partition = c.partition AND b.at_us < c.at_us
    JOIN asked AS a ON a.client_id IS NOT DISTINCT FROM c.client_id AND a.client_address = c.client_address AND a.cluster = c.cluster
        AND a.topic = c.topic AND a.partition = c.partition AND a.at_us BETWEEN c.at_us AND c.at_us + 60000000
    WHERE c.kind = 'committed' AND c.partition_offset = -1 AND c.error_code = 0 AND EXISTS (
        SELECT 1 FROM client_offsets AS k
        WHERE k.kind = 'commit' AND k.error_code = 0 AND k.cluster = c.cluster AND k.group_id = c.group_id AND k.topic = c.topic
            AND k.partition <> c.partition AND k.at_us < b.at_us)
        AND NOT EXISTS ( -- it reads on, and only asks what is committed
            SELECT 1 FROM asked AS r
            WHERE r.client_id IS NOT DISTINCT FROM c.client_id AND r.client_address = c.client_address AND r.cluster = c.cluster
                AND r.topic = c.topic AND r.partition = c.partition AND r.at_us <= c.at_us)
        AND NOT EXISTS ( -- see unknown
            SELECT 1 FROM client_offsets AS k
            WHERE k.kind = 'commit' AND k.cluster = c.cluster AND k.group_id = c.group_id AND k.topic = c.topic
                AND k.partition = c.partition AND k.at_us < c.at_us)
    GROUP BY c.client_id, c.client_address, c.software, c.cluster, c.topic, c.partition, c.seen_at, c.at_us, c.connection_id, c.exchange
), passed AS ( -- clients of Go look at the bounds themselves, and never ask for a committed offset that is gone
    SELECT c.client_id, c.client_address, c.software, c.cluster, c.topic, c.partition, c.partition_offset, a.partition_offset AS to_offset,
        'records deleted' AS cause, c.seen_at, c.at_us, a.seen_at AS next_at, c.at_us AS read_us, c.connection_id, c.exchange
    FROM client_offsets AS c
    ASOF JOIN asked AS a ON coalesce(a.client_id, '') = coalesce(c.client_id, '') AND a.client_address = c.client_address
        AND a.cluster = c.cluster AND a.topic = c.topic AND a.partition = c.partition AND a.at_us >= c.at_us
    WHERE c.kind = 'committed' AND c.partition_offset >= 0 AND c.error_code = 0
        AND a.error_code = 0 AND a.partition_offset >= a.log_start_offset AND a.log_start_offset > c.partition_offset
        AND NOT EXISTS ( -- one that reads on may have read what it has not committed
            SELECT 1 FROM asked AS r
            WHERE r.client_id IS NOT DISTINCT FROM c.client_id AND r.client_address = c.client_address AND r.cluster = c.cluster
                AND r.topic = c.topic AND r.partition = c.partition AND r.at_us BETWEEN c.at_us - 2000000 AND c.at_us)
    QUALIFY row_number() OVER (
        PARTITION BY c.client_id, c.client_address, c.cluster, c.topic, c.partition, c.partition_offset ORDER BY c.at_us, c.connection_id, c.exchange
    ) = 1
), jumps AS (
    SELECT * FROM passed
    UNION ALL
    SELECT * FROM deleted
    UNION ALL
    SELECT * FROM expired
    UNION ALL
    SELECT * FROM added
)
SELECT o.*, EXISTS (
    SELECT 1 FROM beginnings AS b
    WHERE b.cluster = o.cluster AND b.topic = o.topic AND b.at_us BETWEEN coalesce(o.read_us, CASE WHEN o.cause = 'offset beyond the end' THEN o.at_us END, 0) AND epoch_us(o.next_at)
) AS is_new
FROM jumps AS o
