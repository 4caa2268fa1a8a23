/*
id: late_records
title: Records that are much older than those before them in the partition
severity: notice
meaning: >
  The time stamps (CreateTime) of a partition go back by minutes or more. Windows of stream processing drop late records, searching by
  time (offsetsForTimes) finds the wrong place, and retention by time deletes too late. Earlier time stamps that were in the future
  (future_timestamps) are left out: those are wrong, not the ones behind them. Records of January or February 1970 are late always: the
  program writes seconds where milliseconds belong, and retention by time deletes its records at once.
basis:
  rests_on: time stamps of batches of a partition, one after the other
  certainty: measured
  wrong_if: the records are replayed on purpose, or the topic gives them the broker's time (LogAppendTime) and nobody was seen to read it
columns:
  severity: "warning: of 1970, so retention by time deletes them at once; notice: else"
  batches: batches whose latest time stamp is behind an earlier one
  records: records in these batches
  most_seconds_late: farthest behind, in seconds
action: >
  Look for a producer that replays or buffers old records, writes seconds instead of milliseconds, or whose clock is behind; send such records to a topic of their own, or set
  message.timestamp.type=LogAppendTime on the topic.
reference: https://kafka.apache.org/documentation/#topicconfigs_message.timestamp.type
parameters:
  min_late_seconds: {default: 300, meaning: "How far a batch's latest time stamp has to be behind that of an earlier batch of the partition."}
  min_batches: {default: 5, meaning: "Fewer such batches of a client in a topic are not listed."}
verdict: "{count client_id:producer writes/producers write} records out of time order. {most records}: {client_id} at {client_address} to {topic}, {records:record/records} up to {most_seconds_late:s} older than earlier ones. Check its clock, its unit of time, or whether it replays."
order: 43
only_if: >-
  FROM record_batches WHERE direction = 'produce' HAVING count(*) >= $min_batches
    AND greatest(max(epoch_ms(max_timestamp)), max(epoch_ms(seen_at))) - min(epoch_ms(max_timestamp)) >= $min_late_seconds * 1000
frame:
  group_by: [client_id, client_address, cluster, "coalesce(topic, topic_id) AS topic"]
  values:
    records: CAST(sum(count) AS BIGINT)
    most_seconds_late: max(before_ms - stamp_ms) // 1000
  derived: {severity: "CASE WHEN most_seconds_late > 1000000000 THEN 'warning' ELSE 'notice' END"}
  having: batches >= $min_batches
  order_by: batches DESC
*/
WITH stamped AS (
    SELECT *,
        epoch_ms(max_timestamp) AS stamp_ms,
        greatest( -- of two, the one that is not NULL
            max(CASE WHEN epoch_ms(max_timestamp) <= at_us // 1000 + 60000 THEN epoch_ms(max_timestamp) END) OVER ( -- not in the future
                PARTITION BY cluster, coalesce(topic, topic_id), partition
                ORDER BY at_us, connection_id, exchange, base_sequence, base_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            CASE WHEN epoch_ms(max_timestamp) BETWEEN 1000000000 AND 5000000000 THEN at_us // 1000 END -- seconds, as milliseconds in 1970
        ) AS before_ms
    FROM client_batches AS b
    WHERE direction = 'produce'
        AND timestamp_type = 'CreateTime'
        AND NOT EXISTS ( -- whose records get the broker's time
            SELECT 1 FROM client_batches AS f
            WHERE f.direction = 'fetch' AND f.timestamp_type = 'LogAppendTime' AND f.cluster = b.cluster AND f.topic = b.topic)
        AND max_timestamp IS NOT NULL
        AND epoch_ms(max_timestamp) >= 0
        AND coalesce(error_code, 0) = 0
)
SELECT *
FROM stamped
WHERE before_ms - stamp_ms >= $min_late_seconds * 1000
