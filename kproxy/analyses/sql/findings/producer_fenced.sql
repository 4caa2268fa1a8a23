/*
id: producer_fenced
title: Producers that another one with the same transactional.id displaced
severity: warning
meaning: >
  The broker answered PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: a newer producer uses the same transactional.id, or the coordinator
  aborted a transaction that took too long. What the older one had not committed is aborted.
columns:
  severity: warning from min_for_warning answers on, else notice
  client_id: ""
  client_address: ""
  software: ""
  transactional_id: transactional.id
  errors: PRODUCER_FENCED and INVALID_PRODUCER_EPOCH answers
  error_name: ""
  connections: of the client that were answered so
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Once at a restart is as it should be. If it repeats: two running instances share a transactional.id (give each its own), or
  transactions take longer than transaction.timeout.ms.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a transactional.id are not listed."}
  min_for_warning: {default: 5, meaning: "From so many answers on it is a warning; fewer are what one restart makes."}
needs: [client_errors, exchanges]
verdict: "{rows:producer/producers} fenced. Most: {client_id} at {client_address}, transactional.id {transactional_id}, {errors:time/times}. Once after a restart is normal; if it repeats, two instances share the id, or transactions time out."
order: 31
*/
WITH found AS (
    SELECT
        r.client_id,
        r.client_address,
        r.cluster,
        coalesce(CASE WHEN r.resource_type = 'transactional_id' THEN r.resource END, e.transactional_id) AS transactional_id,
        max(r.software) AS software,
        max(r.error_name) AS error_name,
        count(*) AS errors,
        count(DISTINCT r.connection_id) AS connections,
        min(r.at) AS first_at,
        max(r.at) AS last_at,
        min(struct(r.at_us, r.connection_id, r.exchange)) AS example
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.error_code IN (47, 90) AND NOT (r.api_key = 24 AND e.api_version >= 4) -- a broker's own question (KIP-890)
    GROUP BY
        r.client_id, r.client_address, r.cluster, coalesce(CASE WHEN r.resource_type = 'transactional_id' THEN r.resource END, e.transactional_id)
)
SELECT
    CASE WHEN errors >= :min_for_warning THEN 'warning' ELSE 'notice' END AS severity,
    client_id,
    client_address,
    software,
    transactional_id,
    errors,
    error_name,
    connections,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors
ORDER BY errors DESC, client_id, client_address, transactional_id, cluster
