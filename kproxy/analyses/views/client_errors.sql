/*
meaning: Each row of errors with the client that got the error, and the broker that sent it.
*/
SELECT r.connection_id, r.exchange, r.seen_at,
    epoch_us(r.seen_at) AS at_us,
    r.api_key, r.api_name, r.client_id, c.client_address, c.software, c.broker, c.node, c.cluster, r.error_code, r.error_name,
    r.message, r.resource_type, r.resource, r.partition, r.count
FROM errors AS r
JOIN client_connections AS c ON c.connection_id = r.connection_id
