/*
meaning: >-
  Each key and value of the table records with what its schema says, its client, cluster and time, and its offset in the log, which for
  produced records comes from the answer. Reads of brokers are left out.
*/
WITH parts AS (
    SELECT connection_id, exchange, direction, topic, topic_id, partition, partition_offset, 'value' AS part,
        value_schema_id AS schema_id, value_subject AS subject, value_schema_version AS schema_version, value_fits AS fits,
        value_problem AS problem
    FROM records WHERE value IS NOT NULL
    UNION ALL
    SELECT connection_id, exchange, direction, topic, topic_id, partition, partition_offset, 'key',
        key_schema_id, key_subject, key_schema_version, key_fits, key_problem
    FROM records WHERE key IS NOT NULL
), appended AS (
    SELECT connection_id, exchange, topic, topic_id, partition, appended_offset, error_code,
        coalesce(base_offset, 0) AS base_offset, coalesce(last_offset, coalesce(base_offset, 0) + count - 1) AS last_offset
    FROM record_batches
    WHERE direction = 'produce'
)
SELECT p.* EXCLUDE (topic, topic_id, partition_offset),
    coalesce(p.topic, p.topic_id) AS topic,
    CASE
        WHEN p.direction = 'fetch' THEN p.partition_offset
        WHEN a.appended_offset >= 0 THEN a.appended_offset + p.partition_offset - a.base_offset
    END AS log_offset,
    e.client_id, e.client_address, e.software, e.cluster, e.seen_at, e.at_us
FROM parts AS p
JOIN client_exchanges AS e ON e.connection_id = p.connection_id AND e.exchange = p.exchange
LEFT JOIN appended AS a ON p.direction = 'produce'
    AND a.connection_id = p.connection_id AND a.exchange = p.exchange AND a.partition = p.partition
    AND a.topic IS NOT DISTINCT FROM p.topic AND a.topic_id IS NOT DISTINCT FROM p.topic_id
    AND p.partition_offset BETWEEN a.base_offset AND a.last_offset
WHERE (p.direction = 'produce' AND coalesce(a.error_code, 0) = 0) OR (p.direction = 'fetch' AND coalesce(e.replica_id, -1) < 0)
