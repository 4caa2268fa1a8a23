/*
meaning: >-
  What each client produced to each topic in each minute since its first request: batches, records and bytes for each way in which it was
  sent (acks, codec), the first and last time, and the first batch as an example. is_counted is false if the number of records is
  unknown; is_taken is true if the broker took them, or does not say (acks=0).
stored: true
*/
SELECT client_id, client_address, cluster,
    coalesce(topic, topic_id) AS topic,
    acks, codec,
    count IS NOT NULL AS is_counted,
    error_code = 0 OR acks = 0 AS is_taken,
    (at_us - coalesce(began_us, 0)) // 60000000 AS minute,
    max(software) AS software,
    count(*) AS batches,
    CAST(sum(count) AS BIGINT) AS records,
    CAST(sum(size) AS BIGINT) AS bytes,
    min(seen_at) AS first_at, max(seen_at) AS last_at,
    min(example_of(at_us, connection_id, exchange)) AS example
FROM client_batches
LEFT JOIN (
    SELECT client_id, client_address, cluster, min(first_seen_us) AS began_us FROM client_connections GROUP BY client_id, client_address, cluster
) AS begun USING (client_id, client_address, cluster)
WHERE direction = 'produce'
GROUP BY client_id, client_address, cluster, coalesce(topic, topic_id), acks, codec, count IS NOT NULL, error_code = 0 OR acks = 0,
    (at_us - coalesce(began_us, 0)) // 60000000
