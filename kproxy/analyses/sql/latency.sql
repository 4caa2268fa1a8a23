/*
id: latency
title: How long requests took, and who waited for what
severity: info
meaning: >-
  Time from the first byte of the request to the last of the response, as captured: next to the client this includes the network, next to
  the broker it does not. One row for each API, client and broker.
columns:
  api_name: ""
  client_id: ""
  p50_ms: median, in milliseconds
  p99_ms: 99th percentile, in milliseconds; empty for fewer than min_for_p99 requests
  max_ms: longest, in milliseconds
  requests: answered requests
  kind: "waiting: the broker may hold the request by design (Fetch, unless it brought more than 64 KiB; JoinGroup, SyncGroup), or it was sent behind such a request; work: all others"
  broker: ""
  is_broker: "whether brokers or controllers asked each other; the verdict names them only where no client waited for work"
  failed_requests: answered with an error code
  broker_p99_ms: p99_ms without waiting, and without the time in kproxy if its log has that, in milliseconds
  waited_ms: how long Fetch requests may have waited by their own max.wait.ms, in milliseconds; an upper bound
  throttled_ms: delay by quota that the broker announced (since Kafka 2.0 it answers at once and then mutes the client), in milliseconds
  proxy_ms: what kproxy itself took for request and response on average, in milliseconds, in the log of a running kproxy; null for a capture
  p90_ms: 90th percentile, in milliseconds
  p95_ms: 95th percentile, in milliseconds
  mean_ms: average, in milliseconds
  max_throttle_ms: longest throttling, in milliseconds
  throttled_requests: number of throttled answers
  has_p99: whether there are min_for_p99 requests or more
action: Look at the APIs with the highest p99 that are not of the kind waiting; compare brokers.
reference: https://kafka.apache.org/documentation/#remote_jmx
parameters:
  min_for_p99: {default: 100, meaning: "Fewer requests have no 99th percentile: it would be the longest of them."}
  min_requests: {default: 1, meaning: Rows with fewer answered requests are left out.}
sampled: The request that an answer waited behind may be among the exchanges that are missing.
verdict: "{sum requests:request/requests}; [{rows where kind=work:?}slowest: {api_name} of [{client_id}|a client without an id][{is_broker:?}, a broker], [{has_p99:?}99th percentile {p99_ms:ms} of {requests:request/requests}|up to {max_ms:ms} in {requests:request/requests}, too few for a 99th percentile]|the broker may hold all of them by design]"
order: 30
*/
WITH answered AS (
  SELECT e.*, c.client, c.client_id, c.role, c.broker_address || ':' || CAST(c.broker_port AS VARCHAR) AS broker,
    CASE WHEN kind = 'waiting' THEN least(micros, max_wait_micros) ELSE 0 END AS waited_micros
  FROM answered_exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
), measured AS (  -- four quantiles of one list: each call would keep all values of its own
  SELECT coalesce(api_name, 'API ' || CAST(api_key AS VARCHAR)) AS api_name,
    kind, client, client_id, broker,
    min(role) = 'broker' AS is_broker,
    count(*) AS requests,
    sum(CASE WHEN is_failed THEN 1 ELSE 0 END) AS failed_requests,
    list_transform(quantile_cont(micros, [0.5, 0.9, 0.95, 0.99]), lambda each: round(round(each, 3) / 1000, 3)) AS quantiles,
    round(max(micros) / 1000, 3) AS max_ms,
    round(sum(micros) / count(*) / 1000, 3) AS mean_ms,
    round(sum(waited_micros) / 1000, 3) AS waited_ms,
    round(round(quantile_cont(greatest(coalesce(broker_micros, micros) - queued_micros - waited_micros, 0), 0.99), 3) / 1000, 3) AS broker_p99_ms,
    sum(CAST(throttle_ms AS BIGINT)) AS throttled_ms,
    max(throttle_ms) AS max_throttle_ms,
    sum(CASE WHEN throttle_ms > 0 THEN 1 ELSE 0 END) AS throttled_requests,
    round(avg(in_proxy_ms), 3) AS proxy_ms,
    count(*) >= $min_for_p99 AS has_p99
  FROM answered
  GROUP BY api_key, coalesce(api_name, 'API ' || CAST(api_key AS VARCHAR)), kind, client, client_id, broker
)
SELECT api_name, kind, client_id, broker, is_broker, requests, failed_requests,
  quantiles[1] AS p50_ms, quantiles[2] AS p90_ms, quantiles[3] AS p95_ms, CASE WHEN has_p99 THEN quantiles[4] END AS p99_ms,
  max_ms, mean_ms, waited_ms, CASE WHEN has_p99 THEN broker_p99_ms END AS broker_p99_ms,
  throttled_ms, max_throttle_ms, throttled_requests, proxy_ms, has_p99
FROM measured
WHERE requests >= $min_requests
ORDER BY CASE WHEN kind <> 'work' THEN 2 WHEN is_broker THEN 1 ELSE 0 END, has_p99 DESC, p99_ms DESC, max_ms DESC, api_name, client_id, client, broker
