/*
id: lost_records
title: Acknowledged records that their partition has no more
severity: critical
meaning: >
  The broker gave a batch offsets that were already taken: it had acknowledged others there before. Its log had been cut off
  meanwhile, mostly because a replica that lacked these records became the leader (unclean leader election, or acks=1 and a broker
  that failed). A producer's resend, which gets its first offset again, and a partition that begins at 0 again, as of a topic that
  is created anew, are left out. Or a broker refused an idempotent producer's next batch as out of order, although the batch
  before it had been acknowledged: a leader that has it does not. Or the broker at this address came back as another cluster, as
  with an empty disk, and gives the same producer lower offsets in the same partition.
basis:
  rests_on: first offsets in answers to Produce, sequence numbers that a broker refuses, and ids of clusters
  certainty: inferred
  wrong_if: the topic was created anew, and its first records were not captured, or the other cluster has this address on purpose
columns:
  evidence: "offsets given again, sequence refused, another cluster, or a reader sent back"
  broker: broker that gave the offsets again, or refused the sequence
  topic: ""
  partition: ""
  from_offset: first offset that was given again; where a sequence was refused, the end of the partition after that, or the last offset that is certainly lost
  end_offset: end of what had been acknowledged before
  records: offsets between the two
  acks: acks of the producer whose batch was the first to take such an offset, or was refused; none of a reader
action: >
  Send the records between these offsets again, from where they came from. Set unclean.leader.election.enable=false, acks=all and
  min.insync.replicas=2.
reference: https://kafka.apache.org/documentation/#design_uncleanleader
parameters:
  min_records: {default: 1, meaning: "Partitions that lost fewer records are not listed."}
sampled: The batches that were acknowledged before, or a resend, may be among the exchanges that are missing.
verdict: "{rows:partition/partitions} lost acknowledged records. {most records}: {topic}-{partition} at {broker}, {records:offset/offsets} from {from_offset:d} on (evidence: {evidence}). Send them again; set acks=all, min.insync.replicas=2 and unclean.leader.election.enable=false."
order: 11
only_if: >-
  FROM exchanges
  WHERE api_key = 23 OR (api_key = 0 AND EXISTS (FROM record_batches WHERE direction = 'produce' AND (appended_offset > 0 OR error_code = 45)))
frame:
  group_by: [cluster, topic, partition, end_offset, evidence]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    broker: min_by(broker, at_us)
    acks: min_by(acks, at_us)
    from_offset: min(lost_offset)
    records: end_offset - min(lost_offset)
  having: records >= $min_records
  order_by: records DESC
*/
WITH appended AS (
    SELECT b.*, e.acks, epoch_us(e.response_at) AS answered_us,
        -- times that it was sent before and may have been appended: not answered, timed out (7, 20), or acknowledged
        count(CASE WHEN coalesce(b.error_code, 0) IN (0, 7, 20) THEN 1 END) OVER (
            PARTITION BY b.cluster, coalesce(b.topic, b.topic_id), b.partition, b.producer_id, b.producer_epoch, b.base_sequence
            ORDER BY b.at_us, b.connection_id, b.exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS attempt
    FROM client_batches AS b
    JOIN exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
    WHERE b.direction = 'produce'
), deleted AS (
    SELECT cluster, topic, at_us FROM client_exchanges CROSS JOIN unnest(topics) AS d(topic) WHERE api_key = 20 AND len(error_codes) = 0
), lives AS ( -- a partition that begins at 0 again, or whose topic was deleted, is that of a topic that was created anew
    SELECT a.*, coalesce(d.at_us, 0) AS deleted_us,
        count(CASE WHEN a.appended_offset = 0 THEN 1 END) OVER (
            PARTITION BY a.cluster, a.topic, a.topic_id, a.partition, coalesce(d.at_us, 0) ORDER BY a.answered_us) AS life
    FROM appended AS a
    ASOF LEFT JOIN deleted AS d ON d.cluster = a.cluster AND d.topic = a.topic AND d.at_us <= a.at_us
    WHERE a.appended_offset >= 0 AND a.at_us >= coalesce(d.at_us + 5000000, 0) -- brokers delete it a moment later
), ends AS (
    SELECT cluster, topic, topic_id, partition, deleted_us, life, answered_us,
        max(appended_offset + count) OVER (
            PARTITION BY cluster, topic, topic_id, partition, deleted_us, life
            ORDER BY answered_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS end_offset
    FROM lives
), given_again AS (
    SELECT a.client_id, a.client_address, a.software, a.cluster, a.broker, a.topic, a.partition, a.acks, a.seen_at, a.at_us,
        a.connection_id, a.exchange, a.appended_offset AS lost_offset, e.end_offset, 'offsets given again' AS evidence
    FROM lives AS a
    ASOF JOIN ends AS e ON e.cluster = a.cluster AND e.topic = a.topic AND e.partition = a.partition AND e.life = a.life
        AND e.deleted_us = a.deleted_us AND e.answered_us < a.at_us
    WHERE a.appended_offset > 0 AND a.appended_offset < e.end_offset
        AND e.topic_id IS NOT DISTINCT FROM a.topic_id
        AND (a.producer_id IS NULL OR a.producer_id < 0 OR a.attempt = 1)
), refused AS ( -- the first batch that is refused, although it follows the last one that was acknowledged
    SELECT b.*, a.appended_offset + a.count - 1 AS acknowledged_offset, a.appended_offset + a.count AS end_offset
    FROM appended AS b
    JOIN appended AS a ON a.cluster = b.cluster AND a.topic = b.topic AND a.partition = b.partition AND a.producer_id = b.producer_id
        AND a.producer_epoch = b.producer_epoch AND a.base_sequence + a.count = b.base_sequence
        AND a.answered_us < b.at_us
    WHERE b.error_code = 45 AND b.producer_id >= 0 AND a.appended_offset >= 0 AND coalesce(a.error_code, 0) = 0 AND a.acks = -1
    QUALIFY row_number() OVER (PARTITION BY b.cluster, b.topic, b.partition, b.producer_id, a.appended_offset ORDER BY b.at_us) = 1
), ends_after AS ( -- how far the partition goes at that broker then; a leader that has just begun says too little
    SELECT r.cluster, r.topic, r.partition, r.end_offset, max(o.high_watermark) AS end_now
    FROM refused AS r
    JOIN client_offsets AS o ON o.cluster = r.cluster AND o.topic = r.topic AND o.partition = r.partition AND o.broker = r.broker
        AND o.kind = 'fetch' AND o.high_watermark >= 0 AND coalesce(o.error_code, 0) = 0 AND o.at_us BETWEEN r.at_us AND r.at_us + 60000000
        AND o.high_watermark < r.end_offset
    GROUP BY r.cluster, r.topic, r.partition, r.end_offset
), written AS (
    SELECT a.cluster, a.broker, c.capture, a.client_id, a.client_address, a.topic, a.partition, max(a.software) AS software,
        min(a.appended_offset) AS from_offset, max(a.appended_offset + a.count) AS end_offset, min_by(a.acks, a.at_us) AS acks,
        min(example_of(a.at_us, a.connection_id, a.exchange)) AS example, min(a.seen_at) AS seen_at, max(a.answered_us) AS until_us
    FROM appended AS a
    JOIN client_connections AS c ON c.connection_id = a.connection_id
    WHERE a.appended_offset >= 0
    GROUP BY a.cluster, a.broker, c.capture, a.client_id, a.client_address, a.topic, a.partition
), replaced AS (
    SELECT b.* REPLACE (a.cluster AS cluster), max(a.end_offset) OVER (PARTITION BY a.cluster, b.broker, b.topic, b.partition) AS end_before
    FROM written AS a
    JOIN written AS b ON b.capture = a.capture AND b.broker = a.broker AND b.client_id IS NOT DISTINCT FROM a.client_id
        AND b.client_address = a.client_address AND b.topic = a.topic AND b.partition = a.partition
    WHERE b.cluster <> a.cluster AND b.example.at_us > a.until_us AND b.from_offset < a.end_offset
        AND b.broker NOT LIKE '127.%' AND b.broker NOT LIKE '[::1]%' -- a tunnel may lead to one cluster after the other
), moves AS (
    SELECT *, lag(position) OVER of_client AS position_before, lag(connection_id) OVER of_client AS connection_before, lag(at_us) OVER of_client AS before_us
    FROM fetch_positions
    WHERE coalesce(error_code, 0) = 0 AND EXISTS (FROM exchanges WHERE api_key = 23)
    WINDOW of_client AS (PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us, connection_id, exchange)
), asked AS ( -- what a client asked that may make it go back
    SELECT client_id, client_address, cluster, at_us, api_key, topics FROM client_exchanges WHERE api_key IN (2, 9, 23)
), sent_back AS (
    SELECT m.client_id, m.client_address, m.software, m.cluster, m.broker, m.topic, m.partition, m.seen_at, m.at_us, m.connection_id, m.exchange,
        m.position, m.position_before
    FROM moves AS m
    JOIN asked AS a ON a.client_id IS NOT DISTINCT FROM m.client_id AND a.client_address = m.client_address AND a.cluster = m.cluster
        AND a.at_us BETWEEN m.before_us AND m.at_us
    WHERE m.position < m.position_before AND m.connection_id <> m.connection_before
        AND m.high_watermark < m.position_before -- the log is shorter than what was read of it; an application that seeks back is none
    GROUP BY m.client_id, m.client_address, m.software, m.cluster, m.broker, m.topic, m.partition, m.seen_at, m.at_us, m.connection_id, m.exchange,
        m.position, m.position_before
    HAVING bool_and(a.api_key = 23) AND bool_or(list_contains(a.topics, m.topic)) -- it looked for no other offset
), everything AS (
    SELECT * FROM given_again
    UNION ALL
    SELECT client_id, client_address, software, cluster, broker, topic, partition, CAST(NULL AS SMALLINT), seen_at, at_us, connection_id, exchange,
        position, position_before, 'a reader sent back'
    FROM sent_back
    UNION ALL
    SELECT client_id, client_address, software, cluster, broker, topic, partition, acks, seen_at, example.at_us,
        example.connection_id, example.exchange, from_offset, end_before, 'another cluster'
    FROM replaced
    UNION ALL
    SELECT r.client_id, r.client_address, r.software, r.cluster, r.broker, r.topic, r.partition, r.acks, r.seen_at, r.at_us,
        r.connection_id, r.exchange, least(r.acknowledged_offset, coalesce(e.end_now, r.acknowledged_offset)), r.end_offset, 'sequence refused'
    FROM refused AS r
    LEFT JOIN ends_after AS e ON e.cluster = r.cluster AND e.topic = r.topic AND e.partition = r.partition AND e.end_offset = r.end_offset
    WHERE NOT EXISTS (SELECT 1 FROM given_again AS g WHERE g.cluster = r.cluster AND g.topic = r.topic AND g.partition = r.partition)
)
SELECT *
FROM everything AS a
WHERE NOT EXISTS (SELECT 1 FROM clock_jumps AS j WHERE j.cluster = a.cluster)
