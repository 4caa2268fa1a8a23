/*
meaning: >-
  The requests that end an open transaction, as sent to its coordinator: EndTxn (committed, aborted), and another InitProducerId
  of the same producer id (restarted), which aborts it. at_us is the time of the request, known_us that of its answer.
*/
SELECT k.cluster, e.producer_id,
    epoch_us(coalesce(e.request_at, e.response_at)) AS at_us,
    epoch_us(coalesce(e.response_at, e.request_at)) AS known_us,
    CASE WHEN e.api_key = 22 THEN 'restarted' WHEN e.committed THEN 'committed' ELSE 'aborted' END AS outcome
FROM exchanges AS e
JOIN connection_clusters AS k ON k.connection_id = e.connection_id
WHERE e.api_key IN (22, 26) AND e.producer_id >= 0 AND e.error_name IS NULL AND coalesce(e.request_at, e.response_at) IS NOT NULL
