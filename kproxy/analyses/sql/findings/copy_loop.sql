/*
id: copy_loop
title: Programs that write what they read back to the same topic
severity: warning
meaning: >
  A program writes nearly as many records to a topic as it reads from it, and most of what is written there comes from itself: each
  record goes round again and again. So do retries without a limit, dead letters that are put back, and mirrors whose source is their target.
basis:
  rests_on: records that clients of one host read from the topic and wrote to it
  certainty: inferred
  wrong_if: the program needs its own records, as a job whose state is in the topic
columns:
  topic: ""
  read: records of the topic that clients at this address read
  written: records that they wrote to it
  by_others: records that others wrote to it
  cluster: ""
action: Stop it; count the attempts in a header and give up after some; keep what failed in a topic that nobody puts back by itself.
reference: https://kafka.apache.org/documentation/#georeplication
parameters:
  min_records: {default: 100, meaning: "Programs that wrote fewer records to the topic are not listed."}
  min_percent: {default: 80, most: 100, meaning: "How many of the records that it read, in percent, it has to write."}
sampled: What it read may be among the exchanges that are missing.
verdict: "{rows:program writes/programs write} what it reads back to the same topic. {most written}: {client_id} at {client_address} read {read:record/records} of {topic} and wrote {written:record/records} to it; others wrote {by_others:,}. Look for retries without a limit, or a mirror of itself."
order: 22
only_if: FROM record_batches WHERE direction = 'produce' HAVING sum(count) >= $min_records
frame:
  derived:
    connection_id: example.connection_id
    exchange: example.exchange
  order_by: written DESC, client_address, topic, cluster
*/
WITH moved AS (
    SELECT cluster, client_address, coalesce(topic, topic_id) AS topic, direction,
        max(client_id) AS client_id, max(software) AS software, CAST(sum(count) AS BIGINT) AS records, min(seen_at) AS first_at,
        max(seen_at) AS last_at, min(example_of(at_us, connection_id, exchange)) AS example
    FROM client_batches
    WHERE coalesce(error_code, 0) = 0 AND NOT coalesce(is_control, false) AND coalesce(replica_id, -1) < 0
        AND (coalesce(topic, topic_id) NOT LIKE '%-changelog' AND coalesce(topic, topic_id) NOT LIKE '\_\_%' ESCAPE '\')
    GROUP BY cluster, client_address, coalesce(topic, topic_id), direction
), totals AS (
    SELECT cluster, topic, CAST(sum(records) AS BIGINT) AS topic_records FROM moved WHERE direction = 'produce' GROUP BY cluster, topic
)
SELECT w.*, r.records AS read, w.records AS written, t.topic_records - w.records AS by_others
FROM moved AS w
JOIN moved AS r ON r.cluster = w.cluster AND r.client_address = w.client_address AND r.topic = w.topic AND r.direction = 'fetch'
JOIN totals AS t ON t.cluster = w.cluster AND t.topic = w.topic
WHERE w.direction = 'produce' AND w.records >= $min_records AND w.records * 100 >= r.records * $min_percent
    AND r.records >= w.records * 8 // 10 AND (t.topic_records - w.records) * 2 <= w.records
