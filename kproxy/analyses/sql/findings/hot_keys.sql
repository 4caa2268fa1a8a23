/*
id: hot_keys
title: Keys that a large share of a topic's records have
severity: notice
meaning: >
  All records of a key go to one partition, and one consumer handles them. A key with a large share of the records limits the whole
  topic to the speed of that consumer. Keys are shown as hexadecimal bytes, their first 32. It needs the contents of
  records (--records, or --only hot_keys).
basis:
  rests_on: the keys of captured records
  certainty: measured
  wrong_if: other producers, which were not captured, write other keys
columns:
  topic: ""
  partition: lowest partition with the key
  key_hex: first 32 bytes of the key, in hexadecimal
  key_bytes: length of the key in bytes
  direction: produce, or fetch where no produced record was seen
  records: records with this key
  topic_records: records with any key in this topic
  keys: different keys in this topic
  percent: records as percent of topic_records
  cluster: ""
action: Add something to the key that spreads it (a sub-key, a bucket number) if order within it is not needed, or send such records without a key.
reference: https://kafka.apache.org/documentation/#intro_concepts_and_terms
parameters:
  min_records: {default: 1000, meaning: "Topics with fewer records that have a key are not listed."}
  min_keys: {default: 10, meaning: "Topics with fewer different keys are not listed: each of few has a large share."}
  min_percent: {default: 25, most: 100, meaning: "Share of the topic's records from which a key is hot."}
verdict: "{rows:key has/keys have} a large share of a topic's records. {most records}: 0x{key_hex} in {topic}, {records:,} of {topic_records:,} records ({percent:d} %), partition {partition}. Spread it over several keys if order allows."
order: 42
frame:
  derived:
    key_hex: substring(hex(key), 1, 64)
    key_bytes: length(hex(key)) // 2
    percent: 100 * records // topic_records
    first_at: seen_at
    last_at: seen_at
  order_by: records DESC, topic, key_hex, key_bytes, cluster
*/
WITH keyed AS (
    SELECT c.cluster, direction,
        coalesce(topic, topic_id) AS topic,
        key,
        count(*) AS records,
        min(partition) AS partition,
        min({'connection_id': r.connection_id, 'exchange': exchange}) AS example
    FROM records AS r
    JOIN connection_clusters AS c ON c.connection_id = r.connection_id
    WHERE key IS NOT NULL
    GROUP BY c.cluster, direction, coalesce(topic, topic_id), key
), shares AS (
    SELECT *,
        CAST(sum(records) OVER (PARTITION BY cluster, direction, topic) AS BIGINT) AS topic_records,
        count(*) OVER (PARTITION BY cluster, direction, topic) AS keys,
        min(CASE WHEN direction = 'produce' THEN 0 ELSE 1 END) OVER (PARTITION BY cluster, topic) AS only_fetched
    FROM keyed
)
SELECT s.*, e.client_id, e.client_address, e.software, e.seen_at, e.connection_id, e.exchange
FROM shares AS s
JOIN client_exchanges AS e ON e.connection_id = s.example.connection_id AND e.exchange = s.example.exchange
WHERE s.topic_records >= $min_records
    AND s.keys >= $min_keys
    AND s.records * 100 >= s.topic_records * $min_percent
    AND s.direction = CASE WHEN s.only_fetched = 1 THEN 'fetch' ELSE 'produce' END
