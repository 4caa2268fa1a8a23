/*
meaning: >-
  An address that several brokers of a cluster advertise in one answer to a client at client_address, such as that of a load balancer. What it
  asks of one of them may come to another one.
*/
WITH answers AS (
    SELECT DISTINCT cluster, client_address, advertised
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND advertised IS NOT NULL
), shared AS (
    SELECT e.cluster, e.client_address, split_part(a.text, ' ', 2) AS address
    FROM answers AS e
    CROSS JOIN unnest(e.advertised) AS a(text)
    GROUP BY e.cluster, e.client_address, e.advertised, split_part(a.text, ' ', 2)
    HAVING count(DISTINCT split_part(a.text, ' ', 1)) > 1
)
SELECT cluster, client_address, min(address) AS shared_address
FROM shared
GROUP BY cluster, client_address
