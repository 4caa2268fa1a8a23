/*
id: skewed_partitions
title: Partitions that get far more records than the others of their topic
severity: notice
meaning: >
  One partition takes several times what the others take. One broker, one disk and one consumer carry the topic, however many
  partitions and consumers it has. Where several clients write to one partition only, of three or more that Metadata shows, fewer records do.
basis:
  rests_on: records of each partition of the topic, and its partitions in Metadata
  certainty: measured
  wrong_if: other producers, which were not captured, fill the other partitions
columns:
  clients: number of clients that produce to the partition; client_id is the one with the most records
  topic: ""
  partition: ""
  records: produced to the partition
  bytes: bytes of its record batches on the wire
  topic_records: produced to the topic
  other_partitions: number of other partitions that were written to; if none was, that Metadata shows
  percent: records as percent of topic_records
  times_others: records as a multiple of the other partitions' average; empty if these have none
  cluster: ""
action: Look at the keys (kproxy report --only hot_keys) and at custom partitioners; a key that is the same for most records belongs elsewhere.
reference: https://kafka.apache.org/documentation/#producerconfigs_partitioner.class
parameters:
  min_records: {default: 10000, meaning: "Topics with fewer records produced are not listed: chance skews small numbers."}
  min_many_batches: {default: 1000, meaning: "Topics with so many record batches are listed with fewer records, too: that is not chance."}
  min_batches: {default: 100, meaning: "Topics with fewer record batches produced are not listed, for the same reason."}
  times_others: {default: 4, most: 1000000, meaning: "How many times the average of the other partitions seen a partition has to have."}
sampled: What the other partitions got may be among the exchanges that are missing.
verdict: "{rows:partition gets/partitions get} far more than the others of the topic. {most records}: {topic}-{partition}, {records:,} of {topic_records:,} records ({percent:d} %). Look for a key that most records share; more consumers do not help."
order: 41
only_if: FROM record_batches WHERE direction = 'produce' HAVING count(*) >= least($min_batches, $min_many_batches)
frame:
  derived:
    percent: 100 * records // nullif(topic_records, 0)
    times_others: round(records * other_partitions / nullif(topic_records - records, 0), 1)
    connection_id: example.connection_id
    exchange: example.exchange
  order_by: records DESC, topic, partition, cluster
*/
WITH by_client AS (
    SELECT cluster,
        coalesce(topic, topic_id) AS topic,
        partition, client_id, client_address,
        max(software) AS software,
        count(*) AS batches,
        CAST(sum(count) AS BIGINT) AS records,
        CAST(sum(size) AS BIGINT) AS bytes,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        min(example_of(at_us, connection_id, exchange)) AS example
    FROM client_batches
    WHERE direction = 'produce' AND coalesce(error_code, 0) = 0
    GROUP BY cluster, coalesce(topic, topic_id), partition, client_id, client_address
), ranked AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY cluster, topic, partition ORDER BY records DESC, client_id, client_address
        ) AS nth
    FROM by_client
), by_partition AS (
    SELECT cluster, topic, partition,
        max(CASE WHEN nth = 1 THEN client_id END) AS client_id,
        max(CASE WHEN nth = 1 THEN client_address END) AS client_address,
        max(CASE WHEN nth = 1 THEN software END) AS software,
        count(*) AS clients,
        CAST(sum(records) AS BIGINT) AS records,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        CAST(sum(batches) AS BIGINT) AS batches,
        min(first_at) AS first_at, max(last_at) AS last_at,
        min(example) AS example
    FROM ranked
    GROUP BY cluster, topic, partition
), compared AS (
    SELECT *,
        CAST(sum(records) OVER (PARTITION BY cluster, topic) AS BIGINT) AS topic_records,
        CAST(sum(batches) OVER (PARTITION BY cluster, topic) AS BIGINT) AS topic_batches,
        count(*) OVER (PARTITION BY cluster, topic) - 1 AS other_partitions
    FROM by_partition
), refused AS (
    SELECT cluster, coalesce(topic, topic_id) AS topic, partition, CAST(sum(count) AS BIGINT) AS records
    FROM client_batches
    WHERE direction = 'produce' AND error_code > 0
    GROUP BY cluster, coalesce(topic, topic_id), partition
), refused_here AS (
    SELECT cluster, topic, CAST(sum(records) AS BIGINT) AS records FROM refused GROUP BY cluster, topic
), described AS (
    SELECT k.cluster, s.topic, count(DISTINCT s.partition) AS partitions
    FROM partition_states AS s
    JOIN connection_clusters AS k ON k.connection_id = s.connection_id
    JOIN compared AS c ON c.cluster = k.cluster AND c.topic = s.topic AND c.other_partitions = 0
    GROUP BY k.cluster, s.topic
)
SELECT c.* REPLACE (CASE WHEN c.other_partitions > 0 THEN c.other_partitions ELSE d.partitions - 1 END AS other_partitions)
FROM compared AS c
LEFT JOIN described AS d ON d.cluster = c.cluster AND d.topic = c.topic
LEFT JOIN refused_here AS h ON h.cluster = c.cluster AND h.topic = c.topic
LEFT JOIN refused AS r ON r.cluster = c.cluster AND r.topic = c.topic AND r.partition = c.partition
WHERE c.records * greatest(c.other_partitions, 1) >= $times_others -- also if what was refused of the others had been taken
        * (c.topic_records - c.records + coalesce(h.records, 0) - coalesce(r.records, 0))
    AND CASE
    WHEN c.other_partitions > 0 THEN (topic_records >= $min_records AND topic_batches >= $min_batches) OR topic_batches >= $min_many_batches
    ELSE topic_batches >= $min_batches AND clients > 1 AND d.partitions >= 3 END
