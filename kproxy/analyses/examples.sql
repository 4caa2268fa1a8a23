-- Which APIs are used, at which versions, how often?
SELECT api_name, api_version, count(*) AS requests
FROM exchanges
GROUP BY ALL ORDER BY requests DESC, api_name, api_version;

-- Who are the clients, at which addresses, with which libraries?
SELECT DISTINCT unnest(client_ids) AS client_id, client_address, client_software_name, client_software_version
FROM connections
ORDER BY ALL;

-- Who writes to each topic, and who reads it?
SELECT topic, direction, client_id, sum(records) AS records, sum(bytes) AS bytes
FROM topic_activity
GROUP BY ALL ORDER BY topic, direction, records DESC;

-- Which orders above 100 from DE did one client write? (--view orders makes it shorter: kproxy help schemas)
SELECT timestamp, topic, partition, value_json
FROM records JOIN exchanges USING (connection_id, exchange)
WHERE direction = 'produce' AND topic = 'orders' AND client_id = 'web-shop'
    AND value_json->>'country' = 'DE' AND (value_json->>'total')::DOUBLE > 100
ORDER BY timestamp;

-- How much does each topic carry in each minute?
SELECT minute, topic, direction, sum(records) AS records, sum(bytes) AS bytes
FROM topic_activity
GROUP BY ALL ORDER BY ALL;

-- Which requests took longest?
SELECT request_at, client_id, api_name, latency_ms
FROM exchanges
WHERE api_name <> 'Fetch'
ORDER BY latency_ms DESC NULLS LAST LIMIT 10;

-- How long does each API take?
SELECT api_name, count(*) AS requests, median(latency_ms) AS p50_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms) AS p99_ms, max(latency_ms) AS max_ms
FROM exchanges
GROUP BY ALL ORDER BY p99_ms DESC NULLS LAST;

-- Which errors did brokers answer, to whom, about what, from when to when?
SELECT error_name, api_name, client_id, resource, sum(count) AS errors, min(seen_at) AS first_at,
    max(seen_at) AS last_at
FROM errors
GROUP BY ALL ORDER BY first_at;

-- Which members did each group have, from when to when?
SELECT group_id, client_id, member_id, min(seen_at) AS first_at, max(seen_at) AS last_at
FROM group_events
WHERE member_id <> ''
GROUP BY ALL ORDER BY group_id, first_at;

-- What happened in each group, in order?
SELECT seen_at, group_id, event, client_id, response_generation, error_name, reason
FROM group_events
ORDER BY group_id, seen_at;

-- Which partitions did each member get?
SELECT seen_at, group_id, client_id, member_id, assignment
FROM group_events
WHERE assignment IS NOT NULL
ORDER BY seen_at;

-- Which offset did each group commit last?
SELECT group_id, topic, partition, max_by(partition_offset, seen_at) AS committed, max(seen_at) AS committed_at
FROM offsets
WHERE kind = 'commit'
GROUP BY ALL ORDER BY ALL;

-- How far behind was each consumer at its last fetch?
SELECT client_id, topic, partition, max_by(high_watermark - partition_offset, seen_at) AS behind
FROM offsets
WHERE kind = 'fetch' AND replica_id < 0 AND high_watermark >= 0 AND partition_offset >= 0
GROUP BY ALL ORDER BY behind DESC;

-- Who leads each partition, and which replicas are in sync, as last said?
SELECT topic, partition, max_by(leader_id, seen_at) AS leader, max_by(replicas, seen_at) AS replicas,
    max_by(in_sync_replicas, seen_at) AS in_sync
FROM partition_states
WHERE replicas IS NOT NULL
GROUP BY ALL ORDER BY ALL;

-- Which records did a share group get more than once?
SELECT group_id, topic, partition, first_offset, last_offset, max(delivery_count) AS deliveries
FROM share_deliveries
WHERE event = 'acquired' AND delivery_count > 1
GROUP BY ALL ORDER BY ALL;

-- Which producers do not wait for all replicas?
SELECT client_id, acks, count(*) AS requests
FROM exchanges
WHERE api_name = 'Produce' AND acks <> -1
GROUP BY ALL ORDER BY ALL;

-- How is each topic compressed?
SELECT topic, codec, count(*) AS batches, sum(count) AS records, sum(size) AS bytes
FROM record_batches
WHERE direction = 'produce'
GROUP BY ALL ORDER BY ALL;

-- How large are the batches of each producer?
SELECT e.client_id, b.topic, count(*) AS batches, round(avg(b.count), 1) AS records_per_batch,
    round(avg(b.size)) AS bytes_per_batch
FROM record_batches AS b
JOIN exchanges AS e USING (connection_id, exchange)
WHERE b.direction = 'produce'
GROUP BY ALL ORDER BY ALL;

-- Who logs in how, and is it encrypted?
SELECT client_address, user_name, sasl_mechanism, tls_version, count(*) AS connections
FROM connections
GROUP BY ALL ORDER BY ALL;

-- Which requests got no answer?
SELECT request_at, client_id, api_name, unanswered
FROM exchanges
WHERE unanswered IS NOT NULL
ORDER BY request_at;

-- How many connections does each client open in a minute, and who closes them?
SELECT time_bucket(INTERVAL 1 minute, first_seen_at) AS minute, client_address, closed_by,
    count(*) AS connections
FROM connections
GROUP BY ALL ORDER BY ALL;

-- Which requests would Kafka 4.0 refuse?
SELECT e.client_id, e.api_name, e.api_version, v.min_version AS oldest, count(*) AS requests
FROM exchanges AS e
JOIN api_versions AS v ON v.release = '4.0' AND v.api_key = e.api_key
WHERE e.api_version < v.min_version
GROUP BY ALL ORDER BY ALL;

-- What happened in the last second?
SELECT request_at, client_id, api_name, topics, error_name
FROM exchanges
WHERE request_at >= (SELECT max(request_at) - INTERVAL 1 second FROM exchanges)
ORDER BY request_at;

-- Which transactions were committed, which aborted?
SELECT request_at, transactional_id, producer_id, producer_epoch, committed, error_name
FROM exchanges
WHERE api_name = 'EndTxn'
ORDER BY request_at;

-- Who was throttled by a quota, for how long?
SELECT client_id, count(*) AS requests, sum(throttle_time_ms) AS throttled_ms
FROM exchanges
WHERE throttle_time_ms > 0
GROUP BY ALL ORDER BY throttled_ms DESC;
