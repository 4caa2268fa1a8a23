/*
id: poison_records
title: Records that their schema does not describe, and consumers that stand before them
severity: critical
meaning: >
  A record cannot be read by the schema that it names, or names none where the other records of the topic do: a deserializer fails on it,
  and a consumer that does not skip it reads nothing behind it. Each row is the first such record of a partition. A consumer stands before
  it if it received the record, neither committed nor fetched an offset behind it, and received it again or went on for some seconds; or if it
  received it ten times and more, up to the end.
basis:
  rests_on: the bytes of captured records, offsets of commits and fetches
  certainty: inferred
  wrong_if: consumers read the record in another way than by its schema, or a consumer that stands before it was paused by its own application
columns:
  severity: "critical: a consumer stands before it; notice: none does, as far as was captured"
  topic: ""
  partition: ""
  partition_offset: offset of the record; NULL where no answer says it
  part: key or value
  writer: client id of the producer; NULL if it was not captured
  schema_id: id of the schema that it names; NULL for none
  subject: subject of the schema
  problem: what is wrong
  consumers: consumers that stand before it
  consumer: client id of the first of them
  records: such records in the partition
  cluster: ""
action: >
  Let the consumers skip the record (a handler of deserialization errors, or kafka-consumer-groups.sh --reset-offsets to the next offset),
  and mend the producer: it has another schema, or no serializer that knows the registry.
reference: https://kafka.apache.org/documentation/#consumerconfigs_value.deserializer
parameters:
  max_percent: {default: 10, most: 100, meaning: "Where a larger share of a topic's records names no schema, such records are no mistakes."}
  wait_seconds: {default: 10, meaning: "A consumer that received the record once stands before it if it went on for so long, and for longer than between two of its commits, up to a minute."}
sampled: Commits and fetches behind the record may be among the exchanges that are missing.
verdict: "{rows:record/records} that a schema does not describe, the first of {rows:partition/partitions}. First: {topic}-{partition} at offset {partition_offset}, written by {writer}: {problem:100}.[{consumers:?} {consumers:consumer stands/consumers stand} before it, {consumer} first.] Skip it, and mend its producer."
order: 13
only_if: FROM records WHERE value_fits IS NOT NULL OR key_fits IS NOT NULL
frame:
  order_by: consumers DESC, first_at, topic, partition, part
*/
WITH usual AS ( -- topics whose records name a schema, but for a few
    SELECT cluster, topic, part
    FROM described_records
    GROUP BY cluster, topic, part
    HAVING count(CASE WHEN fits THEN 1 END) > 0
        AND 100 * count(CASE WHEN schema_id IS NULL THEN 1 END) <= $max_percent * count(*)
), bad AS (
    SELECT r.*, CASE WHEN r.fits = false THEN r.problem ELSE 'it names no schema, unlike the other records of the topic' END AS why
    FROM described_records AS r
    LEFT JOIN usual AS u ON u.cluster = r.cluster AND u.topic = r.topic AND u.part = r.part
    WHERE (r.fits = false AND (u.topic IS NOT NULL OR starts_with(coalesce(r.subject, r.topic), r.topic)))
        OR (r.fits IS NULL AND r.schema_id IS NULL AND u.topic IS NOT NULL)
), firsts AS (
    SELECT cluster, topic, partition, part, min(log_offset) AS partition_offset, count(DISTINCT log_offset) AS records
    FROM bad
    GROUP BY cluster, topic, partition, part
), seen AS (
    SELECT b.*, f.partition_offset, greatest(f.records, 1) AS records
    FROM bad AS b
    JOIN firsts AS f ON f.cluster = b.cluster AND f.topic = b.topic AND f.partition = b.partition AND f.part = b.part
        AND f.partition_offset IS NOT DISTINCT FROM b.log_offset
), received AS (
    SELECT cluster, topic, partition, part, partition_offset, client_id, client_address, min(at_us) AS at_us, max(at_us) AS until_us, count(*) AS times
    FROM seen
    WHERE direction = 'fetch'
    GROUP BY cluster, topic, partition, part, partition_offset, client_id, client_address
), passed AS ( -- how far each client came: what it committed, or else where it fetched
    SELECT cluster, topic, partition, client_id, client_address,
        coalesce(max(CASE WHEN kind = 'commit' THEN partition_offset END), max(CASE WHEN kind = 'fetch' THEN partition_offset END)) AS position,
        max(pause_us) AS pause_us
    FROM (SELECT *, CASE WHEN kind = 'commit' THEN at_us - lag(at_us) OVER (
            PARTITION BY cluster, topic, partition, client_id, client_address, kind ORDER BY at_us) END AS pause_us -- between two commits
        FROM client_offsets
        WHERE replica_id < 0 AND kind IN ('commit', 'fetch'))
    GROUP BY cluster, topic, partition, client_id, client_address
), lasts AS (
    SELECT cluster, client_id, client_address, max(at_us) AS at_us
    FROM client_exchanges
    GROUP BY cluster, client_id, client_address
), standing AS (
    SELECT r.cluster, r.topic, r.partition, r.part, count(*) AS consumers, min_by(r.client_id, r.at_us) AS consumer
    FROM received AS r
    LEFT JOIN passed AS p ON p.cluster = r.cluster AND p.topic = r.topic AND p.partition = r.partition
        AND p.client_id IS NOT DISTINCT FROM r.client_id AND p.client_address = r.client_address
    JOIN lasts AS l ON l.cluster = r.cluster AND l.client_id IS NOT DISTINCT FROM r.client_id AND l.client_address = r.client_address
    WHERE (coalesce(p.position, 0) <= r.partition_offset AND (r.times > 1 OR l.at_us - r.at_us >= greatest($wait_seconds * 1000000, least(coalesce(p.pause_us, 0), 60000000))))
        -- some libraries commit what they hand over, also where the program goes back to it
        OR (r.times >= 10 AND r.until_us - r.at_us >= $wait_seconds * 1000000 AND l.at_us - r.until_us <= 5000000)
    GROUP BY r.cluster, r.topic, r.partition, r.part
), rows AS (
    SELECT cluster, topic, partition, part, partition_offset,
        min_by(client_id, at_us) AS client_id,
        min_by(client_address, at_us) AS client_address,
        min_by(software, at_us) AS software,
        min_by(CASE WHEN direction = 'produce' THEN client_id END, at_us) AS writer,
        min_by(schema_id, at_us) AS schema_id,
        min_by(subject, at_us) AS subject,
        min_by(why, at_us) AS problem,
        min_by({'connection_id': connection_id, 'exchange': exchange}, at_us) AS example,
        max(records) AS records,
        min(seen_at) AS first_at,
        max(seen_at) AS last_at
    FROM seen
    GROUP BY cluster, topic, partition, part, partition_offset
)
SELECT r.* EXCLUDE (example),
    r.example.connection_id AS connection_id,
    r.example.exchange AS exchange,
    coalesce(s.consumers, 0) AS consumers,
    s.consumer,
    CASE WHEN s.consumers > 0 THEN 'critical' ELSE 'notice' END AS severity
FROM rows AS r
LEFT JOIN standing AS s ON s.cluster = r.cluster AND s.topic = r.topic AND s.partition = r.partition AND s.part = r.part
