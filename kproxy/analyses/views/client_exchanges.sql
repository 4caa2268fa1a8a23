/*
meaning: Each exchange with its client, broker and cluster, and its time, also in microseconds, for arithmetic.
*/
SELECT e.* EXCLUDE (broker),
    c.client_address, c.role, c.software, c.broker, c.node, c.cluster,
    coalesce(e.request_at, e.response_at) AS seen_at,
    epoch_us(coalesce(e.request_at, e.response_at)) AS at_us
FROM exchanges AS e
JOIN client_connections AS c ON c.connection_id = e.connection_id
