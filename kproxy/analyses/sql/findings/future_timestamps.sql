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
verdict: "{count client_id:producer writes/producers write} time stamps in the future. {most batches}: {client_id} at {client_address} to {topic}, {batches:batch/batches} up to {most_seconds_ahead:,} s ahead. Correct that host's clock, or the unit of its time stamps."
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
SELECT *
FROM client_batches AS b
WHERE direction = 'produce'
    AND NOT EXISTS (SELECT 1 FROM clock_jumps AS j WHERE j.cluster = b.cluster)
    AND timestamp_type = 'CreateTime'
    AND NOT EXISTS ( -- whose records get the broker's time
        SELECT 1 FROM client_batches AS f
        WHERE f.direction = 'fetch' AND f.timestamp_type = 'LogAppendTime' AND f.cluster = b.cluster AND f.topic = b.topic)
    AND epoch_ms(max_timestamp) - at_us // 1000 >= $min_ahead_seconds * 1000
