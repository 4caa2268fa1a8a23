/*
id: abandoned_fetches
title: Consumers that do not wait for their own fetches
severity: warning
meaning: >
  The consumer asks the broker to wait for records (fetch.max.wait.ms) longer than it waits for an answer itself (request.timeout.ms): where
  nothing comes, it closes the connection, connects anew and asks again. All partitions that it reads from the broker wait meanwhile.
basis:
  rests_on: max_wait_ms of Fetch requests without an answer, and when the client closed their connection
  certainty: measured
  wrong_if: the client was restarted each time
columns:
  fetches: that it gave up
  max_wait_ms: milliseconds for which it asked the broker to wait
  waited_ms: milliseconds for which it waited itself, at most
action: Set request.timeout.ms well above fetch.max.wait.ms.
reference: https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.wait.ms
parameters:
  min_fetches: {default: 3, meaning: "Clients that gave up fewer fetches at a broker are not listed."}
verdict: "{rows:consumer gives/consumers give} up fetches before the time is over that the fetches allow. {most fetches}: {client_id} at {client_address} closed {fetches:connection/connections} to {broker} after {waited_ms:ms}, and had asked to wait {max_wait_ms:ms}. Set request.timeout.ms above fetch.max.wait.ms."
order: 23
only_if: FROM exchanges WHERE api_key = 1 HAVING count(unanswered) > 0 AND count(CASE WHEN max_wait_ms >= 2000 THEN 1 END) >= $min_fetches
frame:
  group_by: [client_id, client_address, cluster, broker]
  values:
    fetches: count(*)
    max_wait_ms: max(max_wait_ms)
    waited_ms: max(waited_ms)
  having: fetches >= $min_fetches AND waited_ms < max_wait_ms
  order_by: fetches DESC
*/
SELECT e.*, (c.closed_us - e.at_us) // 1000 AS waited_ms
FROM client_exchanges AS e
JOIN client_connections AS c ON c.connection_id = e.connection_id
WHERE e.api_key = 1 AND (e.unanswered IS NOT NULL OR epoch_us(e.response_at) > c.closed_us) AND coalesce(e.replica_id, -1) < 0 AND e.max_wait_ms >= 2000
    AND c.closed_by = 'client' AND c.closed_us IS NOT NULL
    AND c.closed_us - e.at_us BETWEEN 900000 AND e.max_wait_ms * 1000
    AND NOT EXISTS ( -- the capture lacks the answer: brokers answer in turn
        SELECT 1 FROM exchanges AS n WHERE n.connection_id = e.connection_id AND n.exchange > e.exchange AND n.response_at IS NOT NULL)
    AND NOT EXISTS ( -- its group rebalances, and it will read something else
        SELECT 1 FROM client_exchanges AS g
        WHERE g.api_key IN (11, 13) AND g.client_id IS NOT DISTINCT FROM e.client_id AND g.client_address = e.client_address
            AND g.at_us BETWEEN e.at_us AND c.closed_us + 100000)
    AND NOT EXISTS ( -- so does one of KIP-848's protocol: it is given other partitions
        SELECT 1 FROM client_group_events AS g
        WHERE g.event = 'heartbeat' AND g.assignment IS NOT NULL AND g.client_id IS NOT DISTINCT FROM e.client_id
            AND g.client_address = e.client_address AND g.at_us BETWEEN e.at_us AND c.closed_us + 100000)
    AND EXISTS ( -- it goes on
        SELECT 1 FROM client_exchanges AS o
        WHERE o.api_key = 1 AND o.client_id IS NOT DISTINCT FROM e.client_id AND o.client_address = e.client_address AND o.broker = e.broker
            AND o.connection_id <> e.connection_id AND o.at_us > c.closed_us)
