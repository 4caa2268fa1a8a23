/*
meaning: >-
  What ends the transaction that a producer has open, as its coordinator shows it: EndTxn (committed, aborted), and another InitProducerId
  of the same producer id (restarted), which aborts it.
*/
SELECT
    cluster,
    producer_id,
    at_us,
    unix_micros(coalesce(response_at, request_at)) AS known_us,
    CASE WHEN api_key = 22 THEN 'restarted' WHEN committed THEN 'committed' ELSE 'aborted' END AS outcome
FROM client_exchanges
WHERE api_key IN (22, 26) AND producer_id >= 0 AND error_name IS NULL
