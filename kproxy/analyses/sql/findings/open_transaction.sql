/*
id: open_transaction
title: Transactions that stay open for long
severity: critical
meaning: >
  Between the first record of the transaction and its commit or abort passed more than the limit, or neither was seen (unfinished). Until then no
  read_committed consumer gets any later record of these partitions, of any producer; the broker ends it after transaction.timeout.ms,
  which readers show: they get past its first record. Only for producers whose coordinator was captured too, since only the coordinator shows the end.
  Left out is what was still open when the capture ended, and for less than twice what its committed ones took (the median).
basis:
  rests_on: batches of the transaction, and no EndTxn at its coordinator for so long
  certainty: inferred
  wrong_if: the end went over a connection that was not captured
columns:
  severity: "critical: not ended when the capture of its coordinator ended; warning: aborted, or ended by the broker; notice: committed, late"
  transactional_id: transactional.id
  producer_id: producer id from the coordinator
  producer_epoch: epoch of the producer id
  topics: topics that were written to
  records: records in the transaction
  seconds: from its first record to its end, or to the end of what was captured of its coordinator
  outcome: "committed, aborted, restarted (another InitProducerId), ended by the broker, unfinished: no end was seen"
  cluster: ""
action: >
  Commit more often, and see to it that the producer aborts when it fails; hanging ones are found and ended by kafka-transactions.sh
  find-hanging and abort.
reference: https://kafka.apache.org/documentation/#producerconfigs_transaction.timeout.ms
parameters:
  min_seconds: {default: 60, meaning: "Transactions that were open for less are not listed; of producers that are gone, a third. The default is that of transaction.timeout.ms."}
sampled: The end of the transaction may be among the exchanges that are missing.
verdict: "{rows:transaction/transactions} open for too long. Longest: {client_id} at {client_address}, transactional.id {transactional_id}, {seconds:,} s ({outcome}). read_committed consumers of {topics} [{rows where outcome=unfinished:?}wait: end it with kafka-transactions.sh|waited meanwhile: commit more often, and abort when the producer fails]."
order: 16
only_if: FROM record_batches WHERE direction = 'produce' AND is_transactional
frame:
  derived:
    severity: CASE coalesce(ending, 'unfinished') WHEN 'committed' THEN 'notice' WHEN 'unfinished' THEN 'critical' ELSE 'warning' END
    seconds: open_us // 1000000
    outcome: coalesce(ending, 'unfinished')
    connection_id: example.connection_id
    exchange: example.exchange
  having: (open_us >= $min_seconds * 1000000 AND (ending IS NOT NULL OR gone_us IS NOT NULL OR open_us > coalesce(2 * usual_us, 0))) OR (ending IS NULL AND gone_us >= $min_seconds * 1000000 / 3)
  order_by: CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, seconds DESC, first_at, producer_id, producer_epoch, client_id, client_address, cluster
*/
WITH marks AS (  -- batches of transactions, and ends of transactions
    SELECT client_id, client_address, cluster, software, transactional_id, producer_id, producer_epoch,
        coalesce(topic, topic_id) AS topic, partition, appended_offset,
        count, seen_at, at_us, connection_id, exchange,
        CAST(NULL AS VARCHAR) AS outcome
    FROM client_batches
    WHERE direction = 'produce'
        AND is_transactional
        AND producer_id >= 0
        AND NOT coalesce(is_control, false)
        AND coalesce(error_code, 0) = 0
    UNION ALL
    SELECT
        CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), cluster, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), producer_id, CAST(NULL AS SMALLINT),
        CAST(NULL AS VARCHAR), CAST(NULL AS INTEGER), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS TIMESTAMP), at_us, CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT), outcome
    FROM transaction_ends
), ended AS (  -- each batch with the first end after it; at equal times, the batch comes after the end
    SELECT *,
        last_value(CASE WHEN outcome IS NOT NULL THEN at_us END IGNORE NULLS) OVER (
            PARTITION BY cluster, producer_id ORDER BY at_us DESC, CASE WHEN outcome IS NULL THEN 0 ELSE 1 END, outcome DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS ending_us,
        last_value(outcome IGNORE NULLS) OVER (
            PARTITION BY cluster, producer_id ORDER BY at_us DESC, CASE WHEN outcome IS NULL THEN 0 ELSE 1 END, outcome DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS ending
    FROM marks
), found AS (
    SELECT client_id, client_address, cluster,
        max(software) AS software,
        max(transactional_id) AS transactional_id,
        producer_id, producer_epoch, ending_us,
        max(ending) AS ending,
        sorted_set(topic) AS topics,
        CAST(sum(count) AS BIGINT) AS records,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        min(at_us) AS first_us,
        min({'at_us': at_us, 'topic': topic, 'partition': partition, 'appended_offset': appended_offset}) AS first_batch,
        min(example_of(at_us, connection_id, exchange)) AS example
    FROM ended
    WHERE outcome IS NULL
    GROUP BY client_id, client_address, cluster, producer_id, producer_epoch, ending_us
), watched AS (  -- until when the capture would show an end; no row if the producer's coordinator was not captured
    SELECT f.cluster, f.producer_id, f.first_us, max(c.until_us) AS until_us
    FROM (SELECT DISTINCT cluster, producer_id, first_us FROM found) AS f
    JOIN coordinator_captures AS c
        ON c.cluster = f.cluster AND c.producer_id = f.producer_id AND c.since_us <= f.first_us AND c.until_us >= f.first_us
    GROUP BY f.cluster, f.producer_id, f.first_us
), passed AS ( -- the last stable offset that readers get is above its first record
    SELECT f.cluster, f.producer_id, f.producer_epoch, f.first_us, min(p.at_us) AS at_us
    FROM found AS f
    JOIN fetch_positions AS p ON p.cluster = f.cluster AND p.topic = f.first_batch.topic AND p.partition = f.first_batch.partition
        AND p.at_us > f.first_us AND p.last_stable_offset > f.first_batch.appended_offset
    WHERE f.ending_us IS NULL
    GROUP BY f.cluster, f.producer_id, f.producer_epoch, f.first_us
), closed AS ( -- the client has no connection any more
    SELECT client_id, client_address, cluster, max(closed_us) AS at_us
    FROM client_connections
    GROUP BY client_id, client_address, cluster
    HAVING bool_and(closed <> 'end of capture' AND closed_us IS NOT NULL)
)
SELECT f.* EXCLUDE (ending), w.until_us - c.at_us AS gone_us, least(f.ending_us, p.at_us, w.until_us) - f.first_us AS open_us,
    median(CASE WHEN f.ending = 'committed' THEN f.ending_us - f.first_us END) OVER (
        PARTITION BY f.client_id, f.client_address, f.cluster, f.transactional_id) AS usual_us,
    CASE WHEN p.at_us IS NULL THEN f.ending ELSE 'ended by the broker' END AS ending
FROM found AS f
LEFT JOIN passed AS p ON p.cluster = f.cluster AND p.producer_id = f.producer_id AND p.producer_epoch IS NOT DISTINCT FROM f.producer_epoch
    AND p.first_us = f.first_us
JOIN watched AS w ON w.cluster = f.cluster AND w.producer_id = f.producer_id AND w.first_us = f.first_us
LEFT JOIN closed AS c ON c.client_id IS NOT DISTINCT FROM f.client_id AND c.client_address = f.client_address AND c.cluster = f.cluster
