/*
meaning: >-
  The requests that end an open transaction, as sent to its coordinator: EndTxn (committed, aborted), and another InitProducerId
  of the same producer id (restarted), which aborts it. An EndTxn that is refused as that of an older epoch, or without a transaction, came
  too late (ended by the broker), unless a newer epoch wrote before. at_us is the time of the request, known_us that of its answer.
*/
SELECT k.cluster, e.producer_id,
    epoch_us(coalesce(e.request_at, e.response_at)) AS at_us,
    epoch_us(coalesce(e.response_at, e.request_at)) AS known_us,
    CASE WHEN e.error_name IS NOT NULL THEN 'ended by the broker' WHEN e.api_key = 22 THEN 'restarted' WHEN e.committed THEN 'committed' ELSE 'aborted' END AS outcome
FROM exchanges AS e
JOIN connection_clusters AS k ON k.connection_id = e.connection_id
WHERE e.api_key IN (22, 26) AND e.producer_id >= 0 AND coalesce(e.request_at, e.response_at) IS NOT NULL
    AND (e.error_name IS NULL OR (e.api_key = 26 AND e.error_name IN ('PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_TXN_STATE') AND NOT EXISTS (
        FROM record_batches AS b
        WHERE b.producer_id = e.producer_id AND b.producer_epoch > e.producer_epoch AND b.seen_at < e.request_at)))
