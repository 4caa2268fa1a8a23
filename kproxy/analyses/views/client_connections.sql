/*
meaning: Each connection with its first client id, role and software (in one text), the broker as host:port, and its cluster (connection_clusters).
stored: true
*/
SELECT c.connection_id, c.capture, k.client_id, c.client_address, k.role,
    CASE
        WHEN k.software IS NULL THEN NULL
        ELSE k.software || coalesce(' ' || k.software_version, '') || CASE WHEN k.inferred THEN ' (inferred)' ELSE '' END
    END AS software,
    CASE WHEN instr(c.broker_address, ':') > 0 THEN '[' || c.broker_address || ']' ELSE c.broker_address END
        || ':' || CAST(c.broker_port AS VARCHAR) AS broker,
    l.cluster, c.first_seen_at, c.last_seen_at,
    epoch_us(c.first_seen_at) AS first_seen_us,
    epoch_us(c.last_seen_at) AS last_seen_us,
    c.requests, c.responses, c.unanswered, c.sasl_mechanism, c.user_name, c.tls_version, c.tls_decrypted, c.not_kafka, c.gaps,
    c.closed_by, c.closed, epoch_us(c.closed_at) AS closed_us
FROM connections AS c
JOIN clients AS k ON k.connection_id = c.connection_id
JOIN connection_clusters AS l ON l.connection_id = c.connection_id
