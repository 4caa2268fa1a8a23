/*
id: scattered_keys
title: Keys that two producers put into different partitions
severity: notice
meaning: >
  Two clients (of the sixteen with the most records) write records with the same keys to a topic, each of them always into one partition for a key, but into another one than the
  other client: their partitioners differ (librdkafka's default hashes by CRC-32, Java's by murmur2), or one of them
  does not know yet that the topic has more partitions. Records of a key are in no order then,
  and joins of Kafka Streams miss half of them. It needs the contents of records (--records, or --only scattered_keys).
basis:
  rests_on: keys and partitions of records in Produce requests
  certainty: measured
  wrong_if: the clients choose partitions on purpose, other than by the key
columns:
  topic: ""
  other_client_id: the client whose partitions differ; both have the same right
  other_software: its library
  keys: that both write
  scattered: the part of these keys that is in different partitions
  percent: scattered as percent of keys
  key_hex: first 32 bytes of the first such key, in hexadecimal
  partition: of this key with client_id
  other_partition: of this key with the other client
  records: of these keys, by both
  cluster: ""
action: >
  Give all producers of the topic one partitioner (partitioner=murmur2_random for librdkafka equals Java's default), then write the
  records anew. If they have the same one, partitions were added: restart the one that does not write to the new ones.
reference: https://kafka.apache.org/documentation/#producerconfigs_partitioner.class
parameters:
  min_scattered: {default: 5, least: 1, meaning: "Clients with fewer keys in different partitions are not listed."}
  min_percent: {default: 50, least: 1, most: 100, meaning: "Share of the keys that both write from which it is not chance."}
verdict: "{rows:pair of producers puts/pairs of producers put} the same keys into different partitions. {most scattered}: {client_id} at {client_address} ({software}) and {other_client_id} ({other_software}) in {topic}, {scattered:,} of {keys:key/keys} ({percent:d} %). Give them one partitioner; if they have the same one, restart the one that does not know of new partitions."
order: 43
frame:
  derived:
    key_hex: substring(hex(first.key), 1, 64)
    partition: first.partition
    other_partition: first.other_partition
    percent: 100 * scattered // keys
  having: scattered >= $min_scattered AND 100 * scattered >= $min_percent * keys
  order_by: scattered DESC, topic, cluster
*/
WITH placed AS ( -- a client that puts a key into several partitions has no partitioner that goes by the key, or the topic grew
    SELECT c.cluster, coalesce(r.topic, r.topic_id) AS topic, c.client_id, c.client_address, r.key, min(r.partition) AS partition,
        count(*) AS records, max(c.software) AS software, min(struct_pack(connection_id := r.connection_id, exchange := r.exchange)) AS example
    FROM records AS r
    JOIN client_connections AS c ON c.connection_id = r.connection_id
    WHERE r.direction = 'produce' AND r.key IS NOT NULL
    GROUP BY c.cluster, coalesce(r.topic, r.topic_id), c.client_id, c.client_address, r.key
    HAVING min(r.partition) = max(r.partition)
), busiest AS ( -- each is compared with each
    SELECT cluster, topic, client_id, client_address
    FROM placed
    GROUP BY cluster, topic, client_id, client_address
    QUALIFY row_number() OVER (PARTITION BY cluster, topic ORDER BY sum(records) DESC, client_id, client_address) <= 16
), compared AS (
    SELECT p.* FROM placed AS p JOIN busiest AS b USING (cluster, topic, client_id, client_address)
), pairs AS (
    SELECT a.cluster, a.topic, a.client_id, a.client_address, b.client_id AS other_client_id, b.client_address AS other_address,
        max(a.software) AS software, max(b.software) AS other_software, count(*) AS keys,
        count(CASE WHEN a.partition <> b.partition THEN 1 END) AS scattered, CAST(sum(a.records + b.records) AS BIGINT) AS records,
        min(CASE WHEN a.partition <> b.partition THEN
            struct_pack(key := a.key, partition := a.partition, other_partition := b.partition) END) AS first,
        min(CASE WHEN a.partition <> b.partition THEN a.example END) AS example
    FROM compared AS a
    JOIN compared AS b ON b.cluster = a.cluster AND b.topic = a.topic AND b.key = a.key
        AND (b.client_id, b.client_address) > (a.client_id, a.client_address)
    GROUP BY a.cluster, a.topic, a.client_id, a.client_address, b.client_id, b.client_address
)
SELECT p.*, e.seen_at AS first_at, e.seen_at AS last_at, e.connection_id, e.exchange
FROM pairs AS p
JOIN client_exchanges AS e ON e.connection_id = p.example.connection_id AND e.exchange = p.example.exchange
