/*
meaning: Each record batch with its client, broker and cluster, and with acks and replica id of its request.
*/
SELECT b.* EXCLUDE (broker),
    e.client_id, e.client_address, e.software, e.broker, e.node, e.cluster, e.acks, e.replica_id, e.transactional_id,
    epoch_us(b.seen_at) AS at_us
FROM record_batches AS b
JOIN client_exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
