/*
meaning: Each row of keyed_group_events with its client and broker, and its time in microseconds.
*/
SELECT g.* EXCLUDE (broker),
    c.client_address, c.software, c.broker,
    epoch_us(g.seen_at) AS at_us
FROM keyed_group_events AS g
JOIN client_connections AS c ON c.connection_id = g.connection_id
