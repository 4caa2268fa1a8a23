/*
meaning: >-
  Each connection with its first client id, role and software (in one text), the broker as host:port, and its cluster (connection_clusters).
  node is the least host:port of those that the cluster advertised for the same broker id, as a broker may have several listeners.
stored: true
*/
WITH listeners AS (
    SELECT DISTINCT l.cluster, a.text
    FROM exchanges AS e
    JOIN connection_clusters AS l ON l.connection_id = e.connection_id
    CROSS JOIN unnest(e.advertised) AS a(text)
    WHERE e.response_at IS NOT NULL
), nodes AS (
    SELECT cluster, split_part(text, ' ', 2) AS broker, min(split_part(text, ' ', 1)) AS node_id
    FROM listeners
    GROUP BY cluster, split_part(text, ' ', 2)
    HAVING count(DISTINCT split_part(text, ' ', 1)) = 1
), named AS (
    SELECT connection_id,
        CASE WHEN instr(broker_address, ':') > 0 THEN '[' || broker_address || ']' ELSE broker_address END
            || ':' || CAST(broker_port AS VARCHAR) AS broker
    FROM connections
)
SELECT c.connection_id, c.capture, k.client_id, c.client_address, k.role,
    CASE
        WHEN k.software IS NULL THEN NULL
        ELSE k.software || coalesce(' ' || k.software_version, '') || CASE WHEN k.inferred THEN ' (inferred)' ELSE '' END
    END AS software,
    b.broker, CASE WHEN n.node_id IS NULL THEN b.broker ELSE min(b.broker) OVER (PARTITION BY l.cluster, n.node_id) END AS node,
    l.cluster, c.first_seen_at, c.last_seen_at,
    epoch_us(c.first_seen_at) AS first_seen_us,
    epoch_us(c.last_seen_at) AS last_seen_us,
    c.requests, c.responses, c.unanswered, c.sasl_mechanism, c.user_name, c.tls_version, c.tls_decrypted, c.not_kafka, c.gaps,
    c.closed_by, c.closed, epoch_us(c.closed_at) AS closed_us
FROM connections AS c
JOIN named AS b ON b.connection_id = c.connection_id
JOIN clients AS k ON k.connection_id = c.connection_id
JOIN connection_clusters AS l ON l.connection_id = c.connection_id
LEFT JOIN nodes AS n ON n.cluster = l.cluster AND n.broker = b.broker
