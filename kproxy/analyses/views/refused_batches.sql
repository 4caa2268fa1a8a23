/*
meaning: >-
  Each attempt to produce a record batch that the broker refused, and what became of its records (outcome): acknowledged, if
  batches with their sequence numbers, or of another epoch with their timestamps, were acknowledged; lost, if the client then went
  away, was acknowledged later records only, or did not succeed within two minutes, and no packets of it are missing; else unknown. harm: 2 for lost, 1 for unknown,
  0 for acknowledged. lost: number of its records that are lost, in the last attempt with this batch, else 0. lacks_replicas: it
  was refused as too few replicas are in sync, or timed out within ten minutes of that.
stored: true
*/
WITH sent AS (
  SELECT b.*, coalesce(b.topic, b.topic_id) AS topic_or_id,
    b.base_sequence + b.count - 1 AS last_sequence,
    coalesce(epoch_us(b.base_timestamp), epoch_us(b.max_timestamp)) AS begin_us,
    epoch_us(b.max_timestamp) AS end_us
  FROM client_batches b
  WHERE b.direction = 'produce' AND b.acks <> 0
), attempts AS (
  SELECT s.*,
    min(at_us) OVER same AS first_us,
    max(at_us) OVER same AS last_us,
    min(example_of(at_us, connection_id, exchange)) OVER same AS first_attempt
  FROM sent s
  WHERE error_code <> 0
  WINDOW same AS (
    PARTITION BY client_id, client_address, cluster, topic_or_id, partition, producer_id, producer_epoch, base_sequence, count,
      begin_us, end_us)
), batches AS (
  SELECT * FROM attempts WHERE connection_id = first_attempt.connection_id AND exchange = first_attempt.exchange
),
-- A client may put refused records into other batches, with those before and after them: what counts is whether the first and the
-- last of them are in batches that were acknowledged.
compared AS (
  SELECT r.connection_id, r.exchange, r.topic_or_id, r.partition, r.end_us, r.last_us, a.at_us, a.begin_us AS other_begin_us,
    a.producer_id >= 0 AND a.producer_id = r.producer_id AND a.producer_epoch = r.producer_epoch AS has_same_epoch,
    CASE
      WHEN has_same_epoch THEN r.base_sequence BETWEEN a.base_sequence AND a.last_sequence
      ELSE a.at_us > r.first_us AND r.begin_us BETWEEN a.begin_us AND a.end_us
    END AS has_first,
    CASE
      WHEN has_same_epoch THEN r.last_sequence BETWEEN a.base_sequence AND a.last_sequence
      ELSE a.at_us > r.first_us AND r.end_us BETWEEN a.begin_us AND a.end_us
    END AS has_last
  FROM batches r
  JOIN sent a ON a.client_id IS NOT DISTINCT FROM r.client_id AND a.client_address = r.client_address AND a.cluster = r.cluster
    AND a.topic_or_id = r.topic_or_id AND a.partition = r.partition
  WHERE a.error_code = 0 AND a.at_us BETWEEN r.first_us - 120000000 AND r.last_us + 120000000
), answered AS (
  SELECT connection_id, exchange, topic_or_id, partition,
    max(CASE WHEN has_first THEN 1 ELSE 0 END) * max(CASE WHEN has_last THEN 1 ELSE 0 END) = 1 AS is_acknowledged,
    max(CASE WHEN other_begin_us > end_us AND at_us >= last_us + 2000000 THEN 1 ELSE 0 END) = 1 AS is_passed
  FROM compared
  GROUP BY connection_id, exchange, topic_or_id, partition
), clients_here AS (
  SELECT client_id, client_address, cluster, max(last_seen_us) AS last_seen_us,
    max(CASE WHEN closed = 'end of capture' THEN 1 ELSE 0 END) = 0 AS is_gone
  FROM client_connections
  GROUP BY client_id, client_address, cluster
), lacking AS ( -- connections on which a producer may have sent what the capture lacks
  SELECT s.client_id, s.client_address, s.cluster, c.connection_id, c.first_seen_us, c.last_seen_us
  FROM sent s
  JOIN client_connections c ON c.connection_id = s.connection_id
  WHERE c.gaps > 0
  GROUP BY s.client_id, s.client_address, s.cluster, c.connection_id, c.first_seen_us, c.last_seen_us
), outcomes AS (
  SELECT r.connection_id, r.exchange, r.topic_or_id, r.partition,
    CASE
      WHEN r.error_code = 46 OR a.is_acknowledged THEN 'acknowledged'
      WHEN r.is_transactional THEN 'unknown' -- the application begins an aborted transaction anew
      WHEN (r.error_code IN (10, 18) AND r.count = 1) OR r.error_code IN (32, 43, 76, 87)
        THEN 'lost' -- libraries give these to the application, and send none of them again
      WHEN EXISTS (
        SELECT 1 FROM lacking l
        WHERE l.client_id IS NOT DISTINCT FROM r.client_id AND l.client_address = r.client_address AND l.cluster = r.cluster
          AND l.first_seen_us <= r.last_us + 120000000 AND l.last_seen_us >= r.first_us) THEN 'unknown'
      WHEN a.is_passed OR c.is_gone OR c.last_seen_us > r.last_us + 120000000 THEN 'lost'
      ELSE 'unknown'
    END AS outcome
  FROM batches r
  LEFT JOIN answered a ON a.connection_id = r.connection_id AND a.exchange = r.exchange AND a.topic_or_id = r.topic_or_id
    AND a.partition = r.partition
  LEFT JOIN clients_here c ON c.client_id IS NOT DISTINCT FROM r.client_id AND c.client_address = r.client_address AND c.cluster = r.cluster
)
SELECT r.connection_id, r.exchange, r.client_id, r.client_address, r.software, r.broker, r.cluster, r.topic_or_id AS topic, r.partition,
  r.error_code, n.name AS error_name, r.seen_at, r.at_us, r.count, r.size, r.base_offset, r.crc_valid, r.producer_id, r.base_sequence,
  r.error_code IN (7, 19, 20) AND bool_or(r.error_code IN (19, 20)) OVER (
    PARTITION BY r.client_id, r.client_address, r.cluster, r.topic_or_id, r.partition
    ORDER BY r.at_us RANGE BETWEEN 600000000 PRECEDING AND 600000000 FOLLOWING) AS lacks_replicas,
  o.outcome, CASE o.outcome WHEN 'lost' THEN 2 WHEN 'unknown' THEN 1 ELSE 0 END AS harm,
  CASE WHEN o.outcome = 'lost' AND r.at_us = r.last_us THEN r.count ELSE 0 END AS lost
FROM attempts r
JOIN outcomes o ON o.connection_id = r.first_attempt.connection_id AND o.exchange = r.first_attempt.exchange
  AND o.topic_or_id = r.topic_or_id AND o.partition = r.partition
LEFT JOIN error_codes n ON n.code = r.error_code
