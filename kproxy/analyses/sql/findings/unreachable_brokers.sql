/*
id: unreachable_brokers
title: Clients that look brokers up again and again and never get to them
severity: warning
meaning: >
  A client asks who leads its topic, or who coordinates its group, gets the answer, and asks again soon, while it does nothing else: it wrote
  and read nothing, and joined no group. The addresses in the answers (advertised.listeners) lead nowhere from there: a name that its host
  cannot resolve, an address inside another network, a port where nobody listens, or a firewall.
basis:
  rests_on: Metadata and FindCoordinator answered without an error, and no other work of the client
  certainty: inferred
  wrong_if: the brokers that the client works with were not captured, or it is a program that only looks at topics
columns:
  broker: the broker that answers
  lookups: answers without an error to Metadata that names topics, and to FindCoordinator
  lookups_in_busiest_half_minute: such answers in the half minute with the most
  coordinators: the part of them that names a coordinator
  connections: ""
  topic: one of the topics; empty for none
  seconds: ""
action: >
  From the host of the client, resolve and reach what the brokers advertise (kafka-broker-api-versions.sh shows it), and see that they
  run; correct
  advertised.listeners of the brokers, or DNS and firewalls of the client.
reference: https://kafka.apache.org/documentation/#brokerconfigs_advertised.listeners
parameters:
  min_lookups: {default: 8, meaning: "Clients with fewer such answers in their busiest half minute are not listed: one that is idle asks every five minutes."}
  min_seconds: {default: 5, meaning: "Clients that looked for less than this are not listed."}
sampled: What the client did otherwise may be among the exchanges that are missing.
verdict: "{count client_id:client looks brokers up and never gets to them/clients look brokers up and never get to them}. {most lookups}: {client_id} at {client_address}, {lookups:time/times} at {broker} in {seconds:,} s. Check that the other brokers run, and that what they advertise can be reached from that host."
order: 16
only_if: >-
  FROM exchanges AS e
  WHERE api_key IN (3, 10) AND response_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM exchanges AS w
    WHERE w.connection_id = e.connection_id AND w.client_id IS NOT DISTINCT FROM e.client_id
      AND coalesce(w.api_key, 0) NOT IN (3, 10, 17, 18, 22, 36, 60, 71, 72))
  HAVING count(*) >= $min_lookups
frame:
  group_by: [client_id, client_address, cluster]
  values:
    broker: max(broker)
    lookups: count(*)
    lookups_in_busiest_half_minute: max(in_half_minute)
    coordinators: count(CASE WHEN api_key = 10 THEN 1 END)
    topic: max(topic)
  having: lookups_in_busiest_half_minute >= $min_lookups AND seconds >= $min_seconds
  order_by: lookups DESC
*/
WITH working AS ( -- any work, also what was not answered; what a client does for a topic or group it does at their brokers
    SELECT DISTINCT client_id, client_address FROM client_exchanges WHERE coalesce(api_key, 0) NOT IN (3, 10, 17, 18, 22, 36, 60, 71, 72)
), lookups AS (
    SELECT *, topics[1] AS topic
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND len(error_codes) = 0 AND role = 'client'
        AND (api_key = 10 OR (api_key = 3 AND len(topics) > 0 AND len(described_topics) > 0))
), impatient AS (
    SELECT client_id, client_address FROM impatient_connections GROUP BY client_id, client_address HAVING count(*) >= 3
), refused AS ( -- a broker said so itself: see the finding that is about its error
    SELECT client_id, client_address FROM client_errors WHERE api_key <> 18 GROUP BY client_id, client_address HAVING count(*) >= 10
)
SELECT l.*,
    count(*) OVER (PARTITION BY l.client_id, l.client_address, l.cluster, l.at_us // 30000000) AS in_half_minute
FROM lookups AS l
WHERE NOT EXISTS (
    FROM working AS w WHERE w.client_id IS NOT DISTINCT FROM l.client_id AND w.client_address = l.client_address)
    AND NOT EXISTS (
    FROM refused AS r WHERE r.client_id IS NOT DISTINCT FROM l.client_id AND r.client_address = l.client_address)
    AND NOT EXISTS ( -- it waits less than the way takes: see reconnect_loop
    FROM impatient AS i WHERE i.client_id IS NOT DISTINCT FROM l.client_id AND i.client_address = l.client_address)
    AND NOT EXISTS ( -- see reconnect_loop
    SELECT 1 FROM client_connections AS c
    WHERE c.client_id IS NOT DISTINCT FROM l.client_id AND c.client_address = l.client_address AND c.responses = 0 AND c.closed_by = 'broker'
    GROUP BY c.broker HAVING count(*) >= 10)
    AND NOT EXISTS ( -- see no_connection
    SELECT 1 FROM failed_attempts AS t WHERE t.client_address = l.client_address AND (t.client_id IS NULL OR t.client_id = l.client_id)
    GROUP BY t.address HAVING sum(t.tries) >= 3 AND max(t.until_us) - min(t.at_us) >= 5000000)
