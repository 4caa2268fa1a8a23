/*
meaning: Each partition of a client's Fetch, with the position that it reads from, which a fetch session does not repeat.
*/
SELECT
    *,
    last_value(offset) IGNORE NULLS OVER (
        PARTITION BY connection_id, topic, partition ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS position
FROM client_offsets
WHERE kind = 'fetch' AND replica_id < 0
