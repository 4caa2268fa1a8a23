/*
id: rare_heartbeats
title: Members whose heartbeats are nearly as far apart as their session is long
severity: notice
meaning: >
  A heartbeat that comes a little late ends the session, and the group rebalances, although nothing is wrong with the member. Kafka advises
  a third of the session (heartbeat.interval.ms, session.timeout.ms).
basis:
  rests_on: the session timeout in JoinGroup requests, and the time between heartbeats
  certainty: measured
  wrong_if: heartbeats that the capture lost lie in between
columns:
  session_timeout_ms: milliseconds that the member asked for
  interval_ms: median time between its heartbeats, in milliseconds
  heartbeats: "that came after another one"
action: Set heartbeat.interval.ms to a third of session.timeout.ms, or less.
reference: https://kafka.apache.org/documentation/#consumerconfigs_heartbeat.interval.ms
parameters:
  min_percent: {default: 60, most: 1000, meaning: "Median time between heartbeats, in percent of the session, from which a member is listed."}
  min_heartbeats: {default: 2, meaning: "Members with fewer heartbeats are not listed."}
sampled: Heartbeats may be among the exchanges that are missing.
verdict: "{rows:member sends heartbeats too rarely for its session/members send heartbeats too rarely for their sessions}. {most interval_ms}: {client_id} at {client_address} in group {group_id}, one in {interval_ms:ms}, with a session of {session_timeout_ms:ms}. Set heartbeat.interval.ms to a third of that."
order: 47
only_if: >-
  FROM exchanges WHERE api_key = 12 AND len(error_codes) = 0
  HAVING count(*) > $min_heartbeats AND (max(epoch_us(request_at)) - min(epoch_us(request_at))) // 10 >= $min_percent * (
    SELECT min(session_timeout_ms) FROM group_events WHERE event = 'join' AND group_type = 'classic' AND session_timeout_ms > 0)
frame:
  group_by: [client_id, client_address, cluster, group_id]
  values:
    session_timeout_ms: min(session_timeout_ms)
    interval_ms: CAST(median(between_ms) AS BIGINT)
    heartbeats: count(*)
  having: heartbeats >= $min_heartbeats AND interval_ms * 100 >= session_timeout_ms * $min_percent
  order_by: interval_ms DESC
*/
WITH sessions AS (
    SELECT cluster, group_id, client_id, client_address, min(session_timeout_ms) AS session_timeout_ms
    FROM client_group_events
    WHERE event = 'join' AND group_type = 'classic' AND session_timeout_ms > 0
    GROUP BY cluster, group_id, client_id, client_address
), beats AS (
    SELECT *,
        (at_us - lag(at_us) OVER (PARTITION BY cluster, group_id, member_id, generation_id ORDER BY at_us, exchange)) // 1000 AS between_ms
    FROM client_exchanges
    WHERE api_key = 12 AND request_at IS NOT NULL AND len(error_codes) = 0
)
SELECT b.* EXCLUDE (session_timeout_ms), s.session_timeout_ms
FROM beats AS b
JOIN sessions AS s ON s.cluster = b.cluster AND s.group_id = b.group_id AND s.client_id IS NOT DISTINCT FROM b.client_id AND s.client_address = b.client_address
WHERE b.between_ms IS NOT NULL
