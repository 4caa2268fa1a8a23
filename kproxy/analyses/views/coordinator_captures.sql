/*
meaning: >-
  From when to when (since_us, until_us) the transaction coordinator of each producer id was captured, which
  would have shown the end of a transaction.
*/
SELECT DISTINCT e.cluster, e.producer_id, b.since_us, b.until_us
FROM client_exchanges AS e
JOIN broker_captures AS b ON b.cluster = e.cluster AND b.broker = e.broker
WHERE e.api_key IN (22, 24, 25, 26) AND e.producer_id >= 0
