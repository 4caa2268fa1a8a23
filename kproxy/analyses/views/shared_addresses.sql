/*
meaning: An address that several brokers of a cluster advertise in one answer. What clients ask of one of them may come to another one.
*/
WITH shared AS (
    SELECT k.cluster, split_part(a.text, ' ', 2) AS address
    FROM exchanges AS e
    JOIN connection_clusters AS k ON k.connection_id = e.connection_id
    CROSS JOIN unnest(e.advertised) AS a(text)
    WHERE e.response_at IS NOT NULL
    GROUP BY k.cluster, e.connection_id, e.exchange, split_part(a.text, ' ', 2)
    HAVING count(DISTINCT split_part(a.text, ' ', 1)) > 1
)
SELECT cluster, min(address) AS shared_address
FROM shared
GROUP BY cluster
