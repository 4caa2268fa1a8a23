/*
id: too_many_partitions
title: Consumers that fetch from very many partitions at once
severity: notice
meaning: >
  One consumer fetches from so many partitions of one broker that each request and answer is large for its bookkeeping alone, and the
  records of one partition wait for those of all others.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  requests: Fetch requests with at least min_partitions
  partitions: most in one of them
  largest_request_bytes: size of the largest of them, in bytes
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Add consumers to the group, or merge topics; raise fetch.max.bytes and max.partition.fetch.bytes only with memory for it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.bytes
parameters:
  min_partitions: {default: 1000, meaning: "Partitions in one Fetch request from which it is listed."}
needs: [client_exchanges]
verdict: "{rows:consumer fetches/consumers fetch} from very many partitions at once. Most: {client_id} at {client_address}, {partitions:,} in one request to {broker}. Add consumers to its group."
order: 48
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        broker,
        max(software) AS software,
        count(*) AS requests,
        max(partitions) AS partitions,
        max(request_size) AS largest_request_bytes,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_exchanges
    WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 AND request_at IS NOT NULL AND partitions >= :min_partitions
    GROUP BY client_id, client_address, broker
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    requests,
    partitions,
    largest_request_bytes,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
ORDER BY partitions DESC, client_id, client_address, broker
