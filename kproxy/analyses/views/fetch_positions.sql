/*
meaning: Each partition of each Fetch of a client, with the offset that it reads from, also if a fetch session (KIP-227) omits it.
*/
SELECT *,
    last_value(partition_offset IGNORE NULLS) OVER (
        PARTITION BY connection_id, topic, partition ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS position
FROM client_offsets
WHERE kind = 'fetch' AND replica_id < 0
