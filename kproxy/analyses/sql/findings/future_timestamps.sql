/*
id: future_timestamps
title: Records from the future
severity: warning
meaning: >
  The producer's time stamp (CreateTime) is later than the time at which the record was sent: its clock is wrong, or it writes seconds or
  microseconds where milliseconds belong. Retention by time keeps such segments for as long; brokers from 4.0 on refuse what is more
  than an hour ahead.
basis:
  rests_on: time stamps of batches next to the capture's clock
  certainty: measured
  wrong_if: the clock of the capturing host was behind, or the topic gives records the broker's time (LogAppendTime) and nobody was seen to read it
columns:
  batches: batches with a time stamp too far ahead
  records: records in these batches
  most_seconds_ahead: farthest time stamp ahead of its request, in seconds
action: Correct the clock of that host (NTP), or the unit of the time stamps that the application sets.
reference: https://kafka.apache.org/documentation/#topicconfigs_message.timestamp.after.max.ms
parameters:
  min_ahead_seconds: {default: 60, meaning: "How far a batch's latest time stamp has to be ahead of the time at which it was sent."}
  min_batches: {default: 1, meaning: "Fewer such batches of a client to a topic are not listed."}
verdict: "{count client_id:producer writes/producers write} time stamps in the future. {most batches}: {client_id} at {client_address} to {topic}, {batches:batch/batches} up to {most_seconds_ahead:s} ahead. Correct that host's clock, or the unit of its time stamps."
order: 43
only_if: FROM record_batches WHERE direction = 'produce' AND epoch_ms(max_timestamp) - epoch_ms(seen_at) >= $min_ahead_seconds * 1000 - 1
frame:
  group_by: [client_id, client_address, cluster, "coalesce(topic, topic_id) AS topic"]
  values:
    records: CAST(sum(count) AS BIGINT)
    most_seconds_ahead: max(epoch_ms(max_timestamp) - at_us // 1000) // 1000
  having: batches >= $min_batches
  order_by: batches DESC
*/
WITH producers AS (
    SELECT b.cluster, median(epoch_ms(b.max_timestamp) - b.at_us // 1000) AS ahead_ms,
        -- brokers from 4.0 on take nothing that is an hour ahead of their own clock
        max(CASE WHEN v.lowest >= 4 AND b.error_code = 0 THEN 1 ELSE 0 END) AS is_taken_by_new
    FROM client_batches AS b
    LEFT JOIN broker_versions AS v ON v.api_key = 1 AND v.broker_address || ':' || CAST(v.broker_port AS VARCHAR) = b.broker
    WHERE b.direction = 'produce' AND b.timestamp_type = 'CreateTime'
    GROUP BY b.cluster, b.client_id, b.client_address
), late_captures AS ( -- all are as far ahead: it is the capture's clock that is behind
    SELECT cluster
    FROM producers
    GROUP BY cluster
    HAVING min(ahead_ms) >= $min_ahead_seconds * 1000 AND max(ahead_ms) - min(ahead_ms) < 60000
        AND (count(*) > 1 OR (min(ahead_ms) > 3660000 AND max(is_taken_by_new) = 1))
)
SELECT *
FROM client_batches AS b
WHERE direction = 'produce'
    AND NOT EXISTS (SELECT 1 FROM clock_jumps AS j WHERE j.cluster = b.cluster)
    AND timestamp_type = 'CreateTime'
    AND NOT EXISTS (SELECT 1 FROM late_captures AS l WHERE l.cluster = b.cluster)
    AND NOT EXISTS ( -- whose records get the broker's time
        SELECT 1 FROM client_batches AS f
        WHERE f.direction = 'fetch' AND f.timestamp_type = 'LogAppendTime' AND f.cluster = b.cluster AND f.topic = b.topic)
    AND epoch_ms(max_timestamp) - at_us // 1000 >= $min_ahead_seconds * 1000
