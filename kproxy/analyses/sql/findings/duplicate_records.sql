/*
id: duplicate_records
title: Batches that were sent twice or more, although the broker had them or may have them
severity: notice
meaning: >
  The client waited too long for an answer, or was told that the outcome is not known, and sent the same batch again. Without idempotence
  (enable.idempotence) the broker does not see that it has the batch already: its records are in the topic twice, and after those that
  were sent meanwhile. Or the broker acknowledged a batch, and the client sent it again, many times: the answers are lost on their way to the
  program, in a proxy or in the client. With idempotence the records are in the topic once, and yet the producer gets no further.
basis:
  rests_on: >-
    batches without an answer, and later ones that begin and end with the same time stamps; what was read; and batches that are
    acknowledged several times, with the same sequence or the same time stamps
  certainty: inferred
  wrong_if: the first one never reached the broker, or the program writes records alike on purpose
columns:
  severity: "warning: seen in the topic twice, or acknowledged again and again; notice: the first one had no answer, and may not have got there"
  cause: "no answer, or answers that do not arrive: those before were acknowledged"
  batches: that were sent again
  records: in these batches
  twice: records that the broker said it may have, or acknowledged, or that were read at two offsets; none with idempotence
action: Set enable.idempotence=true (with acks=all); make handling records twice harmless; find out why the broker was late, or where its answers are lost.
reference: https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence
parameters:
  min_batches: {default: 1, meaning: "Clients that sent fewer batches again are not listed."}
  min_again_ms: {default: 400, meaning: "Batches that come sooner after the one that they may repeat are taken for others."}
  min_acknowledged: {default: 5, least: 3, meaning: "Batches that were acknowledged less often are not taken for one that is repeated."}
verdict: "{rows:producer/producers} sent batches again. {most records}: {client_id} at {client_address} to {topic}, {batches:batch/batches} with {records:record/records}, cause: {cause}[{sum twice:?}; {sum twice:record is/records are} in the topic twice|][{rows where severity=notice:?}; what had no answer may be in the topic twice|]. [{rows where cause=answers that do not arrive:?}Look for what drops the broker's answers|Set enable.idempotence=true]."
order: 16
only_if: >-
  FROM record_batches WHERE direction = 'produce' GROUP BY connection_id, topic, partition, max_timestamp, count
  HAVING count(*) >= $min_acknowledged OR bool_or(coalesce(producer_id, -1) < 0 AND (error_code IS NULL OR error_code IN (7, 20)))
frame:
  group_by: [client_id, client_address, cluster, topic, cause]
  values:
    records: CAST(sum(count) AS BIGINT)
    twice: CAST(sum(CASE WHEN is_twice THEN count ELSE 0 END) AS BIGINT)
  derived:
    severity: CASE WHEN twice > 0 OR cause = 'answers that do not arrive' THEN 'warning' ELSE 'notice' END
  having: batches >= $min_batches
  order_by: twice DESC, records DESC
*/
WITH sent AS (
    SELECT cluster, client_id, client_address, software, coalesce(topic, topic_id) AS topic, partition, count, size, seen_at, at_us, connection_id,
        exchange, error_code, appended_offset, epoch_us(coalesce(base_timestamp, max_timestamp)) AS begin_us, epoch_us(max_timestamp) AS end_us
    FROM client_batches
    WHERE direction = 'produce' AND coalesce(producer_id, -1) < 0 AND acks <> 0 AND max_timestamp IS NOT NULL
        AND abs(epoch_us(max_timestamp) - at_us) < 300000000 -- else they are imported, and their times say nothing
), retried AS ( -- resent records may be in a larger batch, with those after them
    SELECT DISTINCT f.*
    FROM sent AS f
    JOIN sent AS a ON a.cluster = f.cluster AND a.client_id IS NOT DISTINCT FROM f.client_id AND a.client_address = f.client_address
        AND a.topic = f.topic AND a.partition = f.partition AND a.begin_us <= f.begin_us AND a.end_us >= f.end_us AND a.count >= f.count
        AND a.at_us BETWEEN f.at_us + $min_again_ms * 1000 AND f.at_us + 300000000
    WHERE (f.error_code IS NULL OR f.error_code IN (7, 20)) AND a.error_code = 0
        AND NOT EXISTS ( -- what forgot the connection let nothing through
            FROM forgotten_connections AS g WHERE g.connection_id = f.connection_id AND f.error_code IS NULL)
), acknowledged AS ( -- one connection sends the batch again and again; rounded time stamps are the program's, and may be those of other records
    SELECT *, count(*) OVER of_batch AS times, min(at_us) OVER of_batch AS first_us, max(at_us) OVER of_batch AS last_us, row_number() OVER (
        PARTITION BY connection_id, topic, partition, producer_id, producer_epoch, base_sequence, begin_us, end_us, count, size
        ORDER BY at_us, exchange) AS nth
    FROM (
        SELECT cluster, client_id, client_address, software, coalesce(topic, topic_id) AS topic, partition, count, size, seen_at, at_us, connection_id,
            exchange, producer_id, producer_epoch, base_sequence, epoch_us(base_timestamp) AS begin_us, epoch_us(max_timestamp) AS end_us
        FROM client_batches
        WHERE direction = 'produce' AND acks <> 0 AND error_code = 0 AND base_timestamp IS NOT NULL
    ) AS b
    WHERE producer_id >= 0 OR (count > 1 AND end_us % 1000000 <> 0)
    WINDOW of_batch AS (PARTITION BY connection_id, topic, partition, producer_id, producer_epoch, base_sequence, begin_us, end_us, count, size)
), copies AS (
    SELECT b.cluster, coalesce(b.topic, b.topic_id) AS topic, b.partition, epoch_us(b.max_timestamp) AS end_us,
        count(DISTINCT b.base_offset) AS copies
    FROM client_batches AS b
    WHERE b.direction = 'fetch' AND epoch_us(b.max_timestamp) IN (SELECT end_us FROM retried)
    GROUP BY b.cluster, coalesce(b.topic, b.topic_id), b.partition, epoch_us(b.max_timestamp)
)
SELECT r.* EXCLUDE (begin_us, end_us, appended_offset, error_code, size), 'no answer' AS cause,
    coalesce(r.error_code, 0) IN (7, 20) OR coalesce(c.copies, 0) > 1 AS is_twice
FROM retried AS r
LEFT JOIN copies AS c ON c.cluster = r.cluster AND c.topic = r.topic AND c.partition = r.partition AND c.end_us = r.end_us
UNION ALL BY NAME
SELECT cluster, client_id, client_address, software, topic, partition, count, seen_at, at_us, connection_id, exchange,
    'answers that do not arrive' AS cause, coalesce(producer_id, -1) < 0 AS is_twice
FROM acknowledged
WHERE nth > 1 AND times >= $min_acknowledged AND (producer_id >= 0 OR (abs(end_us - first_us) < 5000000
    AND last_us - first_us >= $min_again_ms * 1000 * (times - 1)))
