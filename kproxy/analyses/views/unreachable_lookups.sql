/*
meaning: >-
  Metadata of topics and coordinators that a client looked up while it did nothing else, and how many it looked up in that half minute
  (in_half_minute): what it does then is at brokers to which it does not get.
stored: true
*/
WITH working AS ( -- any work, also what was not answered; what a client does for a topic or group it does at their brokers
    SELECT DISTINCT client_id, client_address FROM client_exchanges WHERE coalesce(api_key, 0) NOT IN (3, 10, 17, 18, 22, 36, 60, 71, 72)
), lookups AS (
    SELECT *, topics[1] AS topic
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND len(error_codes) = 0 AND role = 'client'
        AND (api_key = 10 OR (api_key = 3 AND len(topics) > 0 AND len(described_topics) > 0))
), impatient AS (
    SELECT client_id, client_address FROM impatient_connections GROUP BY client_id, client_address HAVING count(*) >= 3
), refused AS ( -- a broker said so itself: see the finding that is about its error
    SELECT client_id, client_address FROM client_errors WHERE api_key <> 18 GROUP BY client_id, client_address HAVING count(*) >= 10
)
SELECT l.*,
    count(*) OVER (PARTITION BY l.client_id, l.client_address, l.cluster, l.at_us // 30000000) AS in_half_minute
FROM lookups AS l
WHERE NOT EXISTS (
    FROM working AS w WHERE w.client_id IS NOT DISTINCT FROM l.client_id AND w.client_address = l.client_address)
    AND NOT EXISTS (
    FROM refused AS r WHERE r.client_id IS NOT DISTINCT FROM l.client_id AND r.client_address = l.client_address)
    AND NOT EXISTS ( -- it waits less than the way takes: see reconnect_loop
    FROM impatient AS i WHERE i.client_id IS NOT DISTINCT FROM l.client_id AND i.client_address = l.client_address)
    AND NOT EXISTS ( -- see reconnect_loop
    SELECT 1 FROM client_connections AS c
    WHERE c.client_id IS NOT DISTINCT FROM l.client_id AND c.client_address = l.client_address AND c.responses = 0 AND c.closed_by = 'broker'
    GROUP BY c.broker HAVING count(*) >= 10)
    AND NOT EXISTS ( -- the broker ends them itself: see cut_connections
    SELECT 1 FROM client_connections AS c
    WHERE c.client_id IS NOT DISTINCT FROM l.client_id AND c.client_address = l.client_address AND c.closed_by = 'broker' AND c.responses = c.requests
        AND c.requests <= 4 AND c.closed_us - c.last_seen_us <= 500000
    GROUP BY c.broker HAVING count(*) >= 10)
    AND NOT EXISTS ( -- see no_connection
    FROM failed_attempts AS t WHERE t.client_address = l.client_address AND (t.client_id IS NULL OR t.client_id = l.client_id))
    AND NOT EXISTS ( -- see broker_away
    FROM client_connections AS c
    JOIN broker_absences AS b ON b.cluster = c.cluster AND b.broker = c.node AND c.first_seen_us BETWEEN b.went_us AND coalesce(b.back_us, b.until_us)
    WHERE c.not_kafka = 'refused' AND c.client_address = l.client_address)
