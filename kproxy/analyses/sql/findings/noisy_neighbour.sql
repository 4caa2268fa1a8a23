/*
id: noisy_neighbour
title: Clients whose load makes the broker slow for others
severity: warning
meaning: >
  While clients at one address send far more to the broker, or far more requests, than in the rest of the capture, answers to other addresses take many times
  as long as before or after: these requests fill the broker's request queue, or its disk or network. Left out are what brokers hold
  by design (Fetch, JoinGroup, SyncGroup), what waits behind it, and throttled answers.
basis:
  rests_on: answers to the same requests of other clients in the seconds with and without that load
  certainty: inferred
  wrong_if: the broker was slow at these very seconds for another reason, or another client that was not captured came with it
columns:
  client_id: the client at that address that sent most
  load_percent: the share of the address of the load of the broker in these seconds (see request_bytes)
  bytes_per_second: bytes of these requests a second, while it is so busy
  requests_per_second: number of these requests a second
  slowed: number of clients elsewhere whose answers took at least times_slower as long
  slowed_client_id: the one of them that was slowed most
  api_name: its requests
  calm_ms: median time of its answers in the other seconds, in milliseconds
  loaded_ms: median time of its answers in these seconds, in milliseconds
  times: how many times as long
  seconds: number of these seconds
action: Give that client a quota (producer_byte_rate, request_percentage), or spread its work; look at the broker's RequestQueueSize and RequestHandlerAvgIdlePercent.
reference: https://kafka.apache.org/documentation/#design_quotas
parameters:
  times_slower: {default: 10, meaning: "Clients whose answers took fewer times as long are not counted."}
  min_ms: {default: 30, meaning: "Clients whose answers took less than this, at the median, are not counted."}
  min_share_percent: {default: 80, most: 100, meaning: "Share of the load of a second from which a client is its load."}
  request_bytes: {default: 1000, meaning: "A request is as much load as so many bytes, with its own bytes, and those of its answer unless it is a Fetch, in addition."}
  min_answers: {default: 5, meaning: "Fewer answers, with or without the load, are not compared."}
verdict: "{rows:address makes/addresses make} a broker slow for others. Worst: {client_id} at {client_address}, with {load_percent:d} % of the load of {broker} in {seconds:,} s ({requests_per_second:,} requests and {bytes_per_second:bytes} a second): {api_name} of {slowed_client_id} took {loaded_ms:ms} in place of {calm_ms:ms}. Give it a quota, or spread its work."
order: 18
only_if: >-
  FROM exchanges WHERE request_at IS NOT NULL
  HAVING count(*) >= 2 * $min_answers AND sum(coalesce(request_size, 0) + CASE WHEN api_key IN (1, 78) THEN 0 ELSE coalesce(response_size, 0) END + $request_bytes) >= 2000000
frame:
  group_by: [client_address, cluster, broker]
  values:
    client_id: max(client_id)
    slowed: count(DISTINCT other)
    slowed_client_id: max_by(other_client_id, times)
    api_name: max_by(api_name, times)
    calm_ms: max_by(calm_ms, times)
    loaded_ms: max_by(loaded_ms, times)
    times: CAST(max(times) AS BIGINT)
    load_percent: max(load_percent)
    bytes_per_second: max(bytes_per_second)
    requests_per_second: max(requests_per_second)
    seconds: max(seconds)
  is_summed: true
  order_by: times DESC
*/
WITH sent AS (
    SELECT e.client_id, e.client_address, e.software, e.cluster, e.broker, e.api_key, e.api_name, e.connection_id, e.exchange, e.seen_at, e.at_us,
        e.at_us // 1000000 AS second, coalesce(e.request_size, 0) AS size,
        coalesce(e.request_size, 0) + CASE WHEN e.api_key IN (1, 78) THEN 0 ELSE coalesce(e.response_size, 0) END + $request_bytes AS work,
        CASE WHEN e.api_key NOT IN (1, 11, 14, 78) AND coalesce(e.throttle_time_ms, 0) = 0 THEN a.micros - a.queued_micros END AS took_us
    FROM client_exchanges AS e
    LEFT JOIN answered_exchanges AS a ON a.connection_id = e.connection_id AND a.exchange = e.exchange
    WHERE e.request_at IS NOT NULL AND e.role = 'client'
), loads AS (
    SELECT cluster, broker, second, max_by(client_id, work) AS client_id, client_address, max(software) AS software, sum(size) AS bytes, count(*) AS requests,
        sum(work) AS work,
        sum(sum(work)) OVER (PARTITION BY cluster, broker, second) AS all_work,
        max(sum(work)) OVER (PARTITION BY cluster, broker, client_address) AS most_work,
        min(seen_at) AS first_at, max(seen_at) AS last_at, min(example_of(at_us, connection_id, exchange)) AS example
    FROM sent
    GROUP BY cluster, broker, second, client_address
), loaded AS ( -- seconds in which one client is the load, and sends near to its most
    SELECT *, CAST(100 * work // all_work AS BIGINT) AS percent
    FROM loads
    WHERE work * 100 >= all_work * $min_share_percent AND work * 8 >= most_work AND work >= 100000
), bursts AS (
    SELECT cluster, broker, max_by(client_id, work) AS client_id, client_address, max(software) AS software, count(*) AS seconds, min(second) AS since, max(second) AS until,
        CAST(median(percent) AS BIGINT) AS load_percent, CAST(median(bytes) AS BIGINT) AS bytes_per_second,
        CAST(median(requests) AS BIGINT) AS requests_per_second, median(work) AS work_per_second,
        min(first_at) AS first_at, max(last_at) AS last_at, min(example) AS example
    FROM loaded
    GROUP BY cluster, broker, client_address
    HAVING count(*) >= 3 AND median(work) >= 1000000 -- a broker that works has time for less
), marked AS ( -- answers to others, in these seconds, and in seconds in which it sends hardly anything
    SELECT b.cluster, b.broker, b.client_address, s.client_id AS other_client_id, s.client_address AS other_address,
        s.api_key, s.api_name, s.second, s.took_us,
        CASE WHEN l.percent IS NOT NULL THEN 1 WHEN coalesce(o.work, 0) * 20 < b.work_per_second THEN 0 END AS is_loaded
    FROM bursts AS b
    JOIN sent AS s ON s.cluster = b.cluster AND s.broker = b.broker AND s.took_us IS NOT NULL
        AND s.client_address <> b.client_address
    LEFT JOIN loaded AS l ON l.cluster = b.cluster AND l.broker = b.broker
        AND l.client_address = b.client_address AND l.second = s.second
    LEFT JOIN loads AS o ON o.cluster = b.cluster AND o.broker = b.broker
        AND o.client_address = b.client_address AND o.second = s.second
), timed AS ( -- a second each, as who waits for answers sends less
    SELECT cluster, broker, client_address, other_client_id, other_address, api_key, api_name, is_loaded, count(*) AS answers, median(took_us) AS took_us
    FROM marked
    WHERE is_loaded IS NOT NULL
    GROUP BY cluster, broker, client_address, other_client_id, other_address, api_key, api_name, is_loaded, second
), compared AS (
    SELECT cluster, broker, client_address, other_client_id, other_address, api_name,
        round(median(CASE WHEN is_loaded = 0 THEN took_us END) / 1000, 1) AS calm_ms,
        round(median(CASE WHEN is_loaded = 1 THEN took_us END) / 1000, 1) AS loaded_ms
    FROM timed
    GROUP BY cluster, broker, client_address, other_client_id, other_address, api_key, api_name
    HAVING sum(CASE WHEN is_loaded = 0 THEN answers END) >= $min_answers AND sum(CASE WHEN is_loaded = 1 THEN answers END) >= $min_answers
        AND count(CASE WHEN is_loaded = 1 THEN 1 END) >= 3 -- one second may be a pause of the broker
)
SELECT b.*, c.other_client_id, c.api_name, c.calm_ms, c.loaded_ms, c.loaded_ms / greatest(c.calm_ms, 0.1) AS times,
    coalesce(c.other_client_id, '') || ' ' || c.other_address AS other
FROM compared AS c
JOIN bursts AS b ON b.cluster = c.cluster AND b.broker = c.broker AND b.client_address = c.client_address
WHERE c.loaded_ms >= $min_ms AND c.loaded_ms >= $times_slower * greatest(c.calm_ms, 0.1)
