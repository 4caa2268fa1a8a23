/*
meaning: Each exchange with who sent it to which broker, and its time; also in microseconds, with which one can compute.
*/
SELECT
    e.*,
    c.client_address,
    c.role,
    c.software,
    c.broker,
    c.cluster,
    coalesce(e.request_at, e.response_at) AS at,
    unix_micros(coalesce(e.request_at, e.response_at)) AS at_us
FROM exchanges AS e
JOIN client_connections AS c ON c.connection_id = e.connection_id
