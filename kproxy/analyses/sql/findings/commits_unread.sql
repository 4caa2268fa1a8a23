/*
id: commits_unread
title: Members that commit offsets which they have not read
severity: warning
meaning: >
  The member commits an offset beyond everything that its host was sent of the partition, and reads on below it. If it is
  restarted, or the partition goes to another member, reading goes on at that offset: the records in between are handled by none. Mostly the
  program commits the end of the partition (the high watermark) in place of the offset after the last record that it handled.
basis:
  rests_on: offsets in OffsetCommit, and the offsets in Fetch requests of the same client before and after
  certainty: said
  wrong_if: it reads the partition over another connection that was not captured, or is meant to skip records
columns:
  group_id: ""
  topic: ""
  partitions: number of partitions with such commits
  commits: that were beyond what was read
  records: offsets between what was read and the commit, at most
  cluster: ""
action: Commit the offset after the last record that was handled (position(), or offset + 1), not the end of the partition; then restart the group at the right offset.
reference: https://kafka.apache.org/documentation/#consumerapi
parameters:
  min_commits: {default: 3, meaning: "Fewer such commits of a client to a topic are not listed."}
sampled: Fetches beyond the commit may be among the exchanges that are missing.
verdict: "{count group_id:group/groups} whose members commit offsets that they have not read. {most records}: {client_id} at {client_address} for {group_id} on {topic}, {commits:time/times}, by up to {records:offset/offsets}; a restart skips these records. Commit the offset after the last record that was handled."
order: 20
only_if: FROM offsets WHERE kind = 'commit' HAVING count(DISTINCT connection_id || ' ' || exchange) >= $min_commits
frame:
  group_by: [client_id, client_address, cluster, group_id, topic]
  values:
    partitions: count(DISTINCT partition)
    commits: count(DISTINCT connection_id || ' ' || exchange)
    records: max(partition_offset - got)
  having: commits >= $min_commits
  order_by: records DESC
*/
WITH steps AS (
    SELECT o.client_id, o.client_address, o.software, o.cluster, o.topic, o.partition, o.group_id, o.at_us, o.seen_at, o.connection_id, o.exchange,
        CASE WHEN o.kind = 'commit' AND e.generation_id >= 0 THEN o.partition_offset END AS partition_offset,
        CASE WHEN o.kind = 'fetch' AND (e.bodies IS NOT NULL OR e.undecoded IS NOT NULL) THEN 9223372036854775807 -- what it brought is not known
            WHEN o.kind <> 'commit' THEN o.partition_offset END AS got,
        CASE WHEN o.kind = 'fetch' THEN o.partition_offset END AS read_from
    FROM client_offsets AS o
    JOIN exchanges AS e ON e.connection_id = o.connection_id AND e.exchange = o.exchange
    WHERE coalesce(o.error_code, 0) = 0 AND o.replica_id < 0 AND coalesce(o.partition_offset, 0) >= 0
    UNION ALL
    SELECT client_id, client_address, software, cluster, coalesce(topic, topic_id), partition, CAST(NULL AS VARCHAR), at_us, seen_at, connection_id, exchange,
        CAST(NULL AS BIGINT), last_offset + 1, CAST(NULL AS BIGINT)
    FROM client_batches
    WHERE direction = 'fetch' AND last_offset IS NOT NULL
), known AS (
    SELECT *,
        max(got) OVER (PARTITION BY client_address, cluster, topic, partition ORDER BY at_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS got_before,
        lead(read_from IGNORE NULLS) OVER (
            PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us, connection_id, exchange) AS next_read
    FROM steps
)
SELECT k.* REPLACE (k.got_before AS got)
FROM known AS k
WHERE k.partition_offset > k.got_before AND k.next_read < k.partition_offset
