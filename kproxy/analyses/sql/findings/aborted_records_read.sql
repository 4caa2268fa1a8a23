/*
id: aborted_records_read
title: Consumers that read records of transactions that were aborted
severity: notice
meaning: >
  The consumer reads with isolation.level=read_uncommitted, the default of Java's client, and so got records whose transaction was aborted:
  for those who read committed records they do not exist. What it does with them is done although the producer took them back.
basis:
  rests_on: the isolation level of Fetch requests, and how the transactions of what they brought ended
  certainty: said
  wrong_if: the program only looks on, as a monitor does
columns:
  records: that it got and that were aborted
  batches: of these
  transactional_id: of the producer that aborted most of them
action: Set isolation.level=read_committed.
reference: https://kafka.apache.org/documentation/#consumerconfigs_isolation.level
parameters:
  min_records: {default: 1, meaning: "Consumers that got fewer such records of a topic are not listed."}
verdict: "{count client_id:consumer/consumers} got records of aborted transactions. {most records}: {client_id} at {client_address} read {records:record/records} of {topic} that {transactional_id} aborted. Set isolation.level=read_committed."
order: 45
only_if: >-
  FROM exchanges WHERE api_key IN (22, 26) AND producer_id >= 0 AND (api_key = 22 OR NOT committed)
    AND EXISTS (SELECT 1 FROM record_batches WHERE direction = 'fetch' AND is_transactional)
frame:
  group_by: [client_id, client_address, cluster, topic]
  values:
    records: CAST(sum(count) AS BIGINT)
    transactional_id: coalesce(max(aborted_id), 'a producer')
  having: records >= $min_records
  order_by: records DESC
*/
WITH read AS (
    SELECT b.*, coalesce(b.topic, b.topic_id) AS topic_or_id, epoch_us(b.max_timestamp) AS written_us
    FROM client_batches AS b
    JOIN exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
    WHERE b.direction = 'fetch' AND b.is_transactional AND NOT b.is_control AND e.isolation_level = 0 AND coalesce(b.replica_id, -1) < 0
        AND b.max_timestamp IS NOT NULL
), written AS (
    SELECT cluster, coalesce(topic, topic_id) AS topic, partition, producer_id, epoch_us(max_timestamp) AS written_us, min(at_us) AS at_us,
        max(transactional_id) AS aborted_id
    FROM client_batches
    WHERE direction = 'produce' AND is_transactional AND coalesce(error_code, 0) = 0 AND producer_id >= 0
    GROUP BY cluster, coalesce(topic, topic_id), partition, producer_id, epoch_us(max_timestamp)
), ended AS (
    SELECT w.*, min_by(t.outcome, t.at_us) AS outcome
    FROM written AS w
    JOIN transaction_ends AS t ON t.cluster = w.cluster AND t.producer_id = w.producer_id AND t.known_us >= w.at_us
    GROUP BY ALL
)
SELECT r.* EXCLUDE (topic), r.topic_or_id AS topic, e.aborted_id
FROM read AS r
JOIN ended AS e ON e.cluster = r.cluster AND e.topic = r.topic_or_id AND e.partition = r.partition AND e.producer_id = r.producer_id
    AND e.written_us = r.written_us AND e.outcome IN ('aborted', 'restarted')
QUALIFY row_number() OVER (
    PARTITION BY r.client_id, r.client_address, r.cluster, r.topic_or_id, r.partition, r.base_offset ORDER BY r.at_us, r.connection_id, r.exchange
) = 1
