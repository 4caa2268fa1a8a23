/*
id: open_transaction
title: Transactions that stay open for long
severity: critical
meaning: >
  Between the first record of the transaction and its commit or abort passed more than the limit, or neither was seen (unfinished). Until then no
  read_committed consumer gets any later record of these partitions, of any producer; the broker ends it after transaction.timeout.ms.
columns:
  severity: "critical: not ended when the capture ended; warning: aborted; notice: committed, late"
  client_id: ""
  client_address: ""
  software: ""
  transactional_id: transactional.id
  producer_id: as the coordinator gave it
  producer_epoch: likewise
  topics: topics that were written to
  records: written in the transaction
  seconds: from its first record to its end, or to the end of the capture
  outcome: committed, aborted, restarted (another InitProducerId), unfinished
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Commit more often, and see to it that the producer aborts when it fails; hanging ones are found and ended by kafka-transactions.sh
  find-hanging and abort.
reference: https://kafka.apache.org/documentation/#producerconfigs_transaction.timeout.ms
parameters:
  min_seconds: {default: 60, meaning: "Transactions that were open for less are not listed. The default is that of transaction.timeout.ms."}
needs: [client_batches, client_exchanges]
verdict: "{rows:transaction/transactions} open for too long. Longest: {client_id} at {client_address}, transactional.id {transactional_id}, {seconds:,} s ({outcome}). read_committed consumers of {topics} wait meanwhile: commit more often, or end it with kafka-transactions.sh."
order: 16
*/
WITH ends AS (
    SELECT cluster, producer_id, at_us, at, CASE WHEN api_key = 22 THEN 'restarted' WHEN committed THEN 'committed' ELSE 'aborted' END AS outcome
    FROM client_exchanges
    WHERE api_key IN (22, 26) AND producer_id >= 0 AND error_name IS NULL
),
written AS (
    SELECT *
    FROM client_batches
    WHERE direction = 'produce'
        AND is_transactional
        AND producer_id >= 0
        AND NOT coalesce(is_control, false)
        AND coalesce(error_code, 0) = 0
),
ended AS (
    SELECT
        w.client_id,
        w.client_address,
        w.cluster,
        w.software,
        w.transactional_id,
        w.producer_id,
        w.producer_epoch,
        coalesce(w.topic, w.topic_id) AS topic,
        w.count,
        w.at,
        w.at_us,
        w.connection_id,
        w.exchange,
        min(struct(e.at_us, e.outcome)) AS ending
    FROM written AS w
    LEFT JOIN ends AS e ON e.cluster = w.cluster AND e.producer_id = w.producer_id AND e.at_us > w.at_us
    GROUP BY
        w.client_id, w.client_address, w.cluster, w.software, w.transactional_id, w.producer_id, w.producer_epoch,
        coalesce(w.topic, w.topic_id), w.partition, w.base_sequence, w.count, w.at, w.at_us, w.connection_id, w.exchange
),
horizon AS (
    SELECT max(coalesce(unix_micros(response_at), at_us)) AS end_us
    FROM client_exchanges
),
found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        max(software) AS software,
        max(transactional_id) AS transactional_id,
        producer_id,
        producer_epoch,
        ending.at_us AS ending_us,
        max(ending.outcome) AS outcome,
        sort_array(collect_set(topic)) AS topics,
        CAST(sum(count) AS BIGINT) AS records,
        min(at) AS first_at,
        max(at) AS last_at,
        min(at_us) AS first_us,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM ended
    GROUP BY client_id, client_address, cluster, producer_id, producer_epoch, ending.at_us
)
SELECT
    CASE f.outcome WHEN 'committed' THEN 'notice' WHEN 'aborted' THEN 'warning' WHEN 'restarted' THEN 'warning' ELSE 'critical' END
        AS severity,
    f.client_id,
    f.client_address,
    f.software,
    f.transactional_id,
    f.producer_id,
    f.producer_epoch,
    f.topics,
    f.records,
    (coalesce(f.ending_us, h.end_us) - f.first_us) DIV 1000000 AS seconds,
    coalesce(f.outcome, 'unfinished') AS outcome,
    f.cluster,
    f.first_at,
    f.last_at,
    f.example.connection_id AS connection_id,
    f.example.exchange AS exchange
FROM found AS f
CROSS JOIN horizon AS h
WHERE coalesce(f.ending_us, h.end_us) - f.first_us >= :min_seconds * 1000000
ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, seconds DESC, first_at, producer_id, producer_epoch, client_id, client_address, cluster
