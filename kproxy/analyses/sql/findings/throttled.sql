/*
id: throttled
title: Clients that a quota slows down
severity: notice
meaning: >
  The broker told the client to wait because it is over its quota of bytes or of request time. Its latency grows by that much; to
  its users it looks as if the broker were slow.
columns:
  client_id: ""
  client_address: ""
  software: ""
  api_name: ""
  throttled: answers that told the client to wait
  exchanges: answers in all
  throttled_ms: waiting in all, in milliseconds
  longest_ms: longest single wait, in milliseconds
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Raise the client's quota, or spread or lower its traffic; see which quota applies with kafka-configs.sh --describe.
reference: https://kafka.apache.org/documentation/#design_quotas
parameters:
  min_throttled: {default: 5, meaning: "Fewer throttled answers to a client for one API are not listed."}
  min_total_ms: {default: 1000, meaning: "Less waiting than this in all is not listed."}
needs: [client_exchanges]
verdict: "{count client_id:client is/clients are} slowed down by quota. Most: {client_id} at {client_address}, told to wait {throttled_ms:ms} in all, in {throttled:,} of {exchanges:,} answers to {api_name}. Raise its quota or lower its traffic."
order: 30
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        api_name,
        max(software) AS software,
        count(*) AS exchanges,
        count(CASE WHEN throttle_time_ms > 0 THEN 1 END) AS throttled,
        CAST(sum(throttle_time_ms) AS BIGINT) AS throttled_ms,
        max(throttle_time_ms) AS longest_ms,
        min(CASE WHEN throttle_time_ms > 0 THEN at END) AS first_at,
        max(CASE WHEN throttle_time_ms > 0 THEN at END) AS last_at,
        max(struct(coalesce(throttle_time_ms, 0) AS longest, connection_id, exchange)) AS example
    FROM client_exchanges
    GROUP BY client_id, client_address, api_name
)
SELECT
    client_id,
    client_address,
    software,
    api_name,
    throttled,
    exchanges,
    throttled_ms,
    longest_ms,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE throttled >= :min_throttled AND throttled_ms >= :min_total_ms
ORDER BY throttled_ms DESC, client_id, client_address, api_name
