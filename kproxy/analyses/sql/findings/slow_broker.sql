/*
id: slow_broker
title: Brokers that take long to answer
severity: warning
meaning: >
  A considerable share of the requests that a broker ought to answer at once took longer than the limit. Waiting by design is left
  out (Fetch, JoinGroup, SyncGroup, throttled answers), and so is waiting behind an earlier request of the connection. If one broker is slow and the others are not, its disk or its network is; if
  all are, look at replication (acks=all waits for the slowest in-sync replica).
columns:
  client_id: of the slowest answer
  client_address: ""
  software: ""
  broker: ""
  api_name: ""
  requests: answers of the API, without those that wait by design
  slow: of those, slower than slow_ms
  percent: slow as percent of requests
  slow_ms: the threshold, in milliseconds
  longest_ms: milliseconds that the slowest took, without the wait for earlier requests of its connection
  clients: number of clients that asked
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: See the analysis latency for the API and the time; look at the broker's disk, garbage collection, request queue and at under-replicated partitions.
reference: https://kafka.apache.org/documentation/#monitoring
parameters:
  slow_ms: {default: 1000, meaning: "Time from request to response from which an answer is slow."}
  min_percent: {default: 5, most: 100, meaning: "Share of slow answers of an API from which a broker is listed."}
  min_requests: {default: 100, meaning: "APIs of a broker with fewer answers are not judged."}
sampled: The request that an answer waited behind may be among the exchanges that are missing.
needs: [client_exchanges]
verdict: "{rows:API is/APIs are} slow at {count broker:broker/brokers}. Worst: {api_name} at {broker}, where {slow:,} of {requests:,} answers ({percent:d} %) took over {slow_ms:ms}, the longest {longest_ms:ms}. Check that broker's disk, pauses and request queue."
order: 19
*/
WITH ordered AS (
    SELECT
        *,
        -- A broker answers the requests of a connection one after the other: this one waited for those before it, such as a held Fetch.
        max(unix_micros(response_at)) OVER (
            PARTITION BY connection_id ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_us
    FROM client_exchanges
),
answered AS (
    SELECT *, unix_micros(response_at) - greatest(unix_micros(request_at), coalesce(free_us, 0)) AS took_us
    FROM ordered
    WHERE request_at IS NOT NULL
        AND response_at IS NOT NULL
        AND api_key NOT IN (1, 11, 14, 78)
        AND coalesce(throttle_time_ms, 0) = 0
),
found AS (
    SELECT
        broker,
        api_name,
        count(*) AS requests,
        count(CASE WHEN took_us >= :slow_ms * 1000 THEN 1 END) AS slow,
        max(took_us) DIV 1000 AS longest_ms,
        count(DISTINCT client_id) AS clients,
        min(CASE WHEN took_us >= :slow_ms * 1000 THEN at END) AS first_at,
        max(CASE WHEN took_us >= :slow_ms * 1000 THEN at END) AS last_at,
        max(struct(took_us, client_id, client_address, software, connection_id, exchange)) AS example
    FROM answered
    GROUP BY broker, api_name
)
SELECT
    example.client_id AS client_id,
    example.client_address AS client_address,
    example.software AS software,
    broker,
    api_name,
    requests,
    slow,
    100 * slow DIV requests AS percent,
    CAST(:slow_ms AS BIGINT) AS slow_ms,
    longest_ms,
    clients,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE requests >= :min_requests AND slow > 0 AND slow * 100 >= requests * :min_percent
ORDER BY percent DESC, slow DESC, broker, api_name
