/*
meaning: Each row of offsets with its client, broker and cluster, and with the topic's id if its name is not known.
*/
SELECT o.connection_id, o.exchange, o.seen_at,
    epoch_us(o.seen_at) AS at_us,
    o.kind, o.client_id, c.client_address, c.software, c.broker, c.node, c.cluster, o.group_id,
    coalesce(o.replica_id, -1) AS replica_id,
    coalesce(o.topic, o.topic_id) AS topic,
    o.partition, o.partition_offset, o.high_watermark, o.last_stable_offset, o.log_start_offset, o.asked_timestamp_ms,
    o.error_code
FROM offsets AS o
JOIN client_connections AS c ON c.connection_id = o.connection_id
