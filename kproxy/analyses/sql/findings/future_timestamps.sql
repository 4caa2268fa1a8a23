/*
id: future_timestamps
title: Records from the future
severity: warning
meaning: >
  The producer's time stamp (CreateTime) is later than the time at which the record was sent: its clock is wrong, or it writes seconds or
  microseconds where milliseconds belong. Retention by time keeps such segments for as long; brokers from 4.0 on refuse what is more
  than an hour ahead.
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  batches: batches with a time stamp too far ahead
  records: records in those batches
  most_seconds_ahead: farthest time stamp ahead of its request, in seconds
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Correct the clock of that host (NTP), or the unit of the time stamps that the application sets.
reference: https://kafka.apache.org/documentation/#topicconfigs_message.timestamp.after.max.ms
parameters:
  min_ahead_seconds: {default: 60, meaning: "How far a batch's latest time stamp has to be ahead of the time at which it was sent."}
  min_batches: {default: 1, meaning: "Fewer such batches of a client to a topic are not listed."}
needs: [client_batches]
verdict: "{count client_id:producer writes/producers write} time stamps in the future. Most: {client_id} at {client_address} to {topic}, {batches:batch/batches} up to {most_seconds_ahead:,} s ahead. Correct that host's clock, or the unit of its time stamps."
order: 43
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        coalesce(topic, topic_id) AS topic,
        max(software) AS software,
        count(*) AS batches,
        CAST(sum(count) AS BIGINT) AS records,
        max(unix_millis(max_timestamp) - at_us DIV 1000) DIV 1000 AS most_seconds_ahead,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_batches
    WHERE direction = 'produce'
        AND timestamp_type = 'CreateTime'
        AND unix_millis(max_timestamp) - at_us DIV 1000 >= :min_ahead_seconds * 1000
    GROUP BY client_id, client_address, cluster, coalesce(topic, topic_id)
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    batches,
    records,
    most_seconds_ahead,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE batches >= :min_batches
ORDER BY batches DESC, client_id, client_address, topic, cluster
