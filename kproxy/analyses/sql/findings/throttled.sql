/*
id: throttled
title: Clients that a quota slows down
severity: notice
meaning: >
  The broker told the client to wait because it is over its quota of bytes or of request time. Its latency grows by this time, as if
  the broker were slow.
basis:
  rests_on: throttle_time_ms in answers
  certainty: said
  wrong_if: the client was slow for another reason (compare its latency)
columns:
  throttled: answers that told the client to wait
  exchanges: all answers
  throttled_ms: sum of the waiting times, in milliseconds
  longest_ms: longest single wait, in milliseconds
action: Raise the client's quota, or spread or lower its traffic; see which quota applies with kafka-configs.sh --describe.
reference: https://kafka.apache.org/documentation/#design_quotas
parameters:
  min_throttled: {default: 1, meaning: "Fewer throttled answers to a client for one API are not listed."}
  min_total_ms: {default: 1000, meaning: "Less waiting than this in all is not listed."}
verdict: "{count client_id:client is/clients are} slowed down by quota. {most throttled_ms}: {client_id} at {client_address}, told to wait {throttled_ms:ms} altogether, in {throttled:,} of {exchanges:,} answers to {api_name}. Raise its quota or lower its traffic."
order: 30
only_if: FROM exchanges WHERE throttle_time_ms > 0 HAVING count(*) >= $min_throttled
frame:
  group_by: [client_id, client_address, api_name]
  values:
    exchanges: count(*)
    throttled: count(CASE WHEN throttle_time_ms > 0 THEN 1 END)
    throttled_ms: CAST(sum(throttle_time_ms) AS BIGINT)
    longest_ms: max(throttle_time_ms)
    first_at: min(CASE WHEN throttle_time_ms > 0 THEN seen_at END)
    last_at: max(CASE WHEN throttle_time_ms > 0 THEN seen_at END)
    example: max(struct_pack(longest := coalesce(throttle_time_ms, 0), connection_id := connection_id, exchange := exchange))
  having: throttled >= $min_throttled AND throttled_ms >= $min_total_ms
  order_by: throttled_ms DESC
*/
SELECT *
FROM client_exchanges
