/*
id: producer_fenced
title: Producers that another one with the same transactional.id displaced
severity: warning
meaning: >
  The broker answered PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: a newer producer uses the same transactional.id, or the coordinator
  aborted a transaction that took too long. What the older one had not committed is aborted.
basis:
  rests_on: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH in answers
  certainty: said
  wrong_if: the older producer had ended already, as at a restart
columns:
  severity: warning from min_for_warning answers on, else notice
  transactional_id: transactional.id
  errors: PRODUCER_FENCED and INVALID_PRODUCER_EPOCH answers
  error_name: ""
  connections: connections with such answers
action: >
  Once at a restart is normal. If it repeats: two running instances share a transactional.id (give each its own), or
  transactions take longer than transaction.timeout.ms.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a transactional.id are not listed."}
  min_for_warning: {default: 5, meaning: "From so many answers on it is a warning; fewer are what one restart makes."}
  pause_seconds: {default: 600, meaning: "After so long without such an answer, the next one begins another episode, with a row of its own."}
verdict: "{rows:producer/producers} fenced. {most errors}: {client_id} at {client_address}, transactional.id {transactional_id}, {errors:time/times}. Once after a restart is normal; if it repeats, two instances share the id, or transactions time out."
order: 31
only_if: FROM errors WHERE error_code IN (47, 90)
frame:
  group_by: [client_id, client_address, cluster, "coalesce(CASE WHEN resource_type = 'transactional_id' THEN resource END, transactional_id) AS transactional_id"]
  pause: pause_seconds
  values: {error_name: max(error_name), errors: count(*), connections: count(DISTINCT connection_id)}
  derived:
    severity: CASE WHEN errors >= $min_for_warning THEN 'warning' ELSE 'notice' END
  having: errors >= $min_errors
  order_by: errors DESC
*/
SELECT r.*, e.transactional_id
FROM client_errors AS r
JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
WHERE r.error_code IN (47, 90) AND NOT (r.api_key = 24 AND e.api_version >= 4) -- a broker's own question (KIP-890)
