/*
id: producer_fenced
title: Producers that were displaced by another one with the same transactional.id, or too slow for their transaction
severity: warning
meaning: >
  The broker answered PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: a newer producer uses the same transactional.id, or the coordinator
  aborted a transaction that took too long, which it also answers with INVALID_TXN_STATE. What was not committed is aborted.
  The cause is another producer where one began to use the id on another connection since this one did; a transaction that timed out
  where there was none, and the transaction had been open for as long as the producer had asked for.
basis:
  rests_on: PRODUCER_FENCED, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE in answers, and InitProducerId of all clients
  certainty: said
  wrong_if: the older producer had ended already, as at a restart
columns:
  severity: warning from min_for_warning answers on, else notice
  transactional_id: transactional.id
  cause: another producer, a transaction that timed out, or unknown
  errors: such answers
  error_name: ""
  connections: connections with such answers
action: >
  Displaced once at a restart is normal; if it repeats, two running instances share a transactional.id: give each its own. If a
  transaction timed out, commit more often, or raise transaction.timeout.ms.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a transactional.id are not listed."}
  min_for_warning: {default: 5, meaning: "From so many answers on it is a warning; fewer are what one restart makes."}
verdict: "{rows:producer/producers} fenced. {most errors}: {client_id} at {client_address}, transactional.id {transactional_id}, {errors:time/times}; cause: {cause}[{rows where cause=another producer:?}. Displaced once after a restart is normal; if it repeats, two instances share the id: give each its own][{rows where cause=a transaction that timed out:?}. Commit more often or raise transaction.timeout.ms][{rows where cause=unknown:?}. Where it is unknown, see whether two instances share the id, or transactions take longer than transaction.timeout.ms]."
order: 31
only_if: FROM errors WHERE error_code IN (47, 48, 90)
frame:
  group_by: [client_id, client_address, cluster, "coalesce(CASE WHEN resource_type = 'transactional_id' THEN resource END, transactional_id) AS transactional_id"]
  pause: pause_seconds
  values: {cause: min(cause)}
  derived:
    severity: CASE WHEN errors >= $min_for_warning THEN 'warning' ELSE 'notice' END
  having: errors >= $min_errors
  order_by: errors DESC
*/
WITH refused AS (
    SELECT r.*, e.transactional_id,
        coalesce(CASE WHEN r.resource_type = 'transactional_id' THEN r.resource END, e.transactional_id) AS id
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.error_code IN (47, 48, 90) AND NOT (r.api_key = 24 AND e.api_version >= 4) -- a broker's own question (KIP-890)
), begun AS (
    SELECT client_id, client_address, cluster, connection_id, transactional_id AS id, timeout_ms, at_us
    FROM client_exchanges
    WHERE api_key = 22 AND transactional_id IS NOT NULL
        AND (len(error_codes) = 0 OR list_contains(error_codes, 51)) -- that one displaces, too, though it has to wait
), used AS ( -- when the producer first used the id on the connection with the refusal
    SELECT r.connection_id, r.id, min(e.at_us) AS used_us
    FROM (SELECT DISTINCT connection_id, id FROM refused) AS r
    JOIN client_exchanges AS e ON e.connection_id = r.connection_id AND e.transactional_id = r.id
    WHERE e.api_key NOT IN (10, 22)
    GROUP BY r.connection_id, r.id
), coordinator AS ( -- the connection on which the refused producer began: a restarted one has other connections than before
    SELECT r.connection_id, r.exchange, max_by(b.connection_id, b.at_us) AS begun_on
    FROM refused AS r
    LEFT JOIN used AS u ON u.connection_id = r.connection_id AND u.id = r.id
    JOIN begun AS b ON b.client_id IS NOT DISTINCT FROM r.client_id AND b.client_address = r.client_address
        AND b.cluster = r.cluster AND b.id = r.id AND b.at_us < r.at_us AND b.at_us <= coalesce(u.used_us, r.at_us)
    GROUP BY r.connection_id, r.exchange
), own AS ( -- the last time that it began to use its id
    SELECT r.connection_id, r.exchange, any_value(c.begun_on) AS begun_on, max(b.at_us) AS begun_us,
        max_by(b.timeout_ms, b.at_us) AS timeout_ms
    FROM refused AS r
    JOIN coordinator AS c ON c.connection_id = r.connection_id AND c.exchange = r.exchange
    JOIN begun AS b ON b.connection_id = c.begun_on AND b.id = r.id AND b.at_us < r.at_us
    GROUP BY r.connection_id, r.exchange
), ended AS ( -- when its transaction before this one ended
    SELECT r.connection_id, r.exchange, max(t.at_us) AS ended_us
    FROM refused AS r
    JOIN client_exchanges AS t ON t.client_id IS NOT DISTINCT FROM r.client_id AND t.client_address = r.client_address
        AND t.cluster = r.cluster AND t.transactional_id = r.id AND t.at_us < r.at_us
    WHERE t.api_key = 26 AND t.response_at IS NOT NULL AND len(t.error_codes) = 0
    GROUP BY r.connection_id, r.exchange
), opened AS ( -- the first record of this transaction
    SELECT r.connection_id, r.exchange, min(p.at_us) AS opened_us
    FROM refused AS r
    JOIN own AS o ON o.connection_id = r.connection_id AND o.exchange = r.exchange
    LEFT JOIN ended AS d ON d.connection_id = r.connection_id AND d.exchange = r.exchange
    JOIN client_exchanges AS p ON p.client_id IS NOT DISTINCT FROM r.client_id AND p.client_address = r.client_address
        AND p.cluster = r.cluster AND p.transactional_id = r.id
        AND p.at_us < r.at_us AND p.at_us >= greatest(o.begun_us, coalesce(d.ended_us, 0))
    WHERE p.api_key IN (0, 24, 25) AND len(p.error_codes) = 0
    GROUP BY r.connection_id, r.exchange
), others AS (
    SELECT DISTINCT r.connection_id, r.exchange
    FROM refused AS r
    LEFT JOIN own AS o ON o.connection_id = r.connection_id AND o.exchange = r.exchange
    JOIN begun AS b ON b.cluster = r.cluster AND b.id = r.id AND b.connection_id <> coalesce(o.begun_on, r.connection_id)
        AND b.at_us BETWEEN coalesce(o.begun_us, 0) AND r.at_us
    WHERE b.client_id IS DISTINCT FROM r.client_id OR b.client_address <> r.client_address OR b.connection_id <> r.connection_id
)
SELECT r.* EXCLUDE (id),
    CASE
        WHEN s.connection_id IS NOT NULL THEN 'another producer'
        WHEN r.at_us - p.opened_us >= o.timeout_ms * 1000 THEN 'a transaction that timed out'
        ELSE 'unknown'
    END AS cause
FROM refused AS r
LEFT JOIN own AS o ON o.connection_id = r.connection_id AND o.exchange = r.exchange
LEFT JOIN opened AS p ON p.connection_id = r.connection_id AND p.exchange = r.exchange
LEFT JOIN others AS s ON s.connection_id = r.connection_id AND s.exchange = r.exchange
