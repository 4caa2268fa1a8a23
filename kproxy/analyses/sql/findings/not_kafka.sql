/*
id: not_kafka
title: Connections of which one side does not speak Kafka
severity: notice
meaning: >
  Clients spoke HTTP or something else to a port where others speak Kafka in the clear: a health check of a load balancer, a scraper
  or a scan. Or clients of Kafka were answered so: their bootstrap.servers or what a broker advertises names a web server or another
  service, and they try again for ever. Or something connects, sends nothing and waits, until the broker ends it. For TLS see reconnect_loop.
basis:
  rests_on: first bytes of connections to a port where others speak Kafka, and of answers to clients of Kafka
  certainty: measured
  wrong_if: it is a health check that ought to be there
columns:
  severity: "warning: a client of Kafka is answered so; notice: a client speaks so to a broker"
  not_kafka: "what it looks like: http, ssh, text, unknown; nothing: no byte, for silent_seconds at least"
  spoken_by: "client, or broker: what the client takes for one"
  connections: ""
action: Correct the port of that client, or the address that it takes for a broker; let health checks open a connection and close it at once; use connections that are opened, or close them.
reference: https://kafka.apache.org/documentation/#brokerconfigs_listeners
parameters:
  min_connections: {default: 3, meaning: "Fewer such connections from an address to a broker are not listed."}
  silent_seconds: {default: 30, meaning: "Connections without a byte that lived for less are not looked at."}
  min_answered: {default: 1, meaning: "Fewer such connections are not listed where the client speaks Kafka."}
verdict: "{rows:address has/addresses have} connections of which one side does not speak Kafka. {most connections}: {client_address} to {broker}, {not_kafka} from the {spoken_by}, {connections:connection/connections}. Correct its address or port, or close what is not used."
order: 44
only_if: FROM connections WHERE not_kafka NOT IN ('tls', 'no answer', 'refused') HAVING count(*) >= least($min_connections, $min_answered)
frame:
  group_by: [client_address, broker, not_kafka, spoken_by]
  values:
    client_id: max(client_id)
    connections: count(*)
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(connection_id := connection_id, exchange := CAST(NULL AS BIGINT)))
  derived: {severity: CASE WHEN spoken_by = 'broker' THEN 'warning' ELSE 'notice' END}
  having: connections >= CASE WHEN spoken_by = 'broker' THEN $min_answered ELSE $min_connections END
  order_by: connections DESC
*/
SELECT * REPLACE (CASE WHEN not_kafka = 'dropped' THEN 'nothing' ELSE not_kafka END AS not_kafka),
    CASE WHEN is_answered_so THEN 'broker' ELSE 'client' END AS spoken_by
FROM (SELECT *, requests > 0 AND responses = 0 AND gaps = 0 AND not_kafka IN ('http', 'ssh', 'text') AS is_answered_so FROM client_connections)
WHERE not_kafka NOT IN ('tls', 'no answer', 'refused') AND (not_kafka <> 'dropped' OR closed_us - first_seen_us >= $silent_seconds * 1000000)
    AND (is_answered_so OR broker IN (SELECT broker FROM client_connections WHERE requests > unanswered AND tls_version IS NULL))
