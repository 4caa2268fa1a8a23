/*
id: slow_broker
title: Brokers that take long to answer
severity: warning
meaning: >
  A considerable share of the requests that a broker ought to answer at once took longer than the limit, or some did again and
  again while the others were quick, as at a broker that stands still for a second every few seconds. Waiting by design is left
  out (Fetch, JoinGroup, SyncGroup, throttled answers), and so is the time that the way takes, and waiting behind an earlier
  request of the connection. If one broker is slow and the others are not, its disk or its network is; if all are, look at
  replication (acks=all waits for the slowest in-sync replica).
basis:
  rests_on: times from request to answer, without waiting by design
  certainty: measured
  wrong_if: the capture was taken at the client, and the network in between is slow
columns:
  client_id: client of the slowest answer
  requests: answers of the API, without those that wait by design
  slow: answers that took longer than slow_ms
  percent: "slow as percent of requests; or, from five slow_seconds on, slow_seconds as percent of seconds, if that is more"
  slow_ms: the threshold, in milliseconds
  seconds: number of seconds in which such requests were sent
  slow_seconds: number of them in which one of these took longer than slow_ms
  longest_ms: milliseconds that the slowest took, without the wait for earlier requests of its connection
  clients: number of clients that asked
action: See the analysis latency for the API and the time; look at the broker's disk, garbage collection, request queue and at under-replicated partitions.
reference: https://kafka.apache.org/documentation/#monitoring
parameters:
  slow_ms: {default: 1000, meaning: "Time from request to response from which an answer is slow."}
  min_percent: {default: 5, most: 100, meaning: "Share of slow answers of an API, or of the seconds with one, from which a broker is listed."}
  min_requests: {default: 100, meaning: "APIs of a broker with fewer answers are not judged."}
sampled: The request that an answer waited behind may be among the exchanges that are missing.
verdict: "{rows:API is/APIs are} slow at {count broker:broker/brokers}. Worst: {api_name} at {broker}, where {slow:,} of {requests:,} answers took over {slow_ms:ms}, in {slow_seconds:,} of {seconds:,} s, the longest {longest_ms:ms}. Check that broker's disk, pauses and request queue."
order: 19
only_if: >-
  FROM exchanges WHERE api_key NOT IN (1, 11, 14, 78)
  HAVING count(*) >= $min_requests AND max(epoch_us(response_at) - epoch_us(request_at)) >= $slow_ms * 1000
frame:
  group_by: [broker, api_name]
  values:
    slow: count(CASE WHEN took_us >= $slow_ms * 1000 THEN 1 END)
    longest_ms: max(took_us) // 1000
    seconds: count(DISTINCT at_us // 1000000)
    slow_seconds: count(DISTINCT CASE WHEN took_us >= $slow_ms * 1000 THEN at_us // 1000000 END)
    clients: count(DISTINCT client_id)
    first_at: min(CASE WHEN took_us >= $slow_ms * 1000 THEN seen_at END)
    last_at: max(CASE WHEN took_us >= $slow_ms * 1000 THEN seen_at END)
    example: max(struct_pack(took_us := took_us, client_id := client_id, client_address := client_address, software := software, connection_id := connection_id, exchange := exchange))
  derived:
    client_id: example.client_id
    client_address: example.client_address
    software: example.software
    percent: greatest(100 * slow // requests, CASE WHEN slow_seconds >= 5 THEN 100 * slow_seconds // seconds END)
    slow_ms: CAST($slow_ms AS BIGINT)
  having: requests >= $min_requests AND slow > 0 AND percent >= $min_percent
  order_by: percent DESC, slow DESC
*/
SELECT e.* REPLACE (e.node AS broker), greatest(a.own_micros - coalesce(w.way_us, 0), 0) AS took_us
FROM client_exchanges AS e
JOIN answered_exchanges AS a ON a.connection_id = e.connection_id AND a.exchange = e.exchange
LEFT JOIN ( -- once there and back at least: a broker's TCP waits for the client's before it sends more
    SELECT client_address, broker, min(way_us) AS way_us FROM ways GROUP BY client_address, broker
) AS w ON w.client_address = e.client_address AND w.broker = e.broker
WHERE e.api_key NOT IN (1, 11, 14, 78) AND coalesce(e.throttle_time_ms, 0) = 0
    AND NOT (e.api_key = 0 AND list_has_any(e.error_codes, [7, 19, 20])) -- it waited for other brokers
