/*
id: not_kafka
title: Connections to a Kafka port that do not speak Kafka
severity: notice
meaning: >
  Clients spoke HTTP or something else to a port where others speak Kafka in the clear: a health check of a load balancer, a scraper
  or a scan. For TLS see reconnect_loop.
basis:
  rests_on: first bytes of connections to a port where others speak Kafka
  certainty: measured
  wrong_if: it is a health check that ought to be there
columns:
  not_kafka: "what it looks like: http, ssh, unknown"
  connections: ""
action: Correct the port of that client; let health checks open a connection and send nothing.
reference: https://kafka.apache.org/documentation/#brokerconfigs_listeners
parameters:
  min_connections: {default: 3, meaning: "Fewer such connections from an address to a broker are not listed."}
verdict: "{rows:address speaks/addresses speak} something else to a Kafka port. {most connections}: {client_address} to {broker}, {not_kafka}, {connections:connection/connections}. Correct its port."
order: 44
only_if: FROM connections WHERE not_kafka NOT IN ('tls', 'no answer', 'refused', 'dropped') HAVING count(*) >= $min_connections
frame:
  group_by: [client_address, broker, not_kafka]
  values:
    client_id: max(client_id)
    connections: count(*)
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(connection_id := connection_id, exchange := CAST(NULL AS BIGINT)))
  having: connections >= $min_connections
  order_by: connections DESC
*/
SELECT *
FROM client_connections
WHERE not_kafka NOT IN ('tls', 'no answer', 'refused', 'dropped') AND broker IN (SELECT broker FROM client_connections WHERE requests > unanswered AND tls_version IS NULL)
