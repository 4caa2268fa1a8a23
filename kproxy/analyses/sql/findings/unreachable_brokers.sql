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
SELECT * FROM unreachable_lookups
