/*
id: not_kafka
title: Connections to a Kafka port that do not speak Kafka
severity: notice
meaning: >
  Clients spoke TLS, HTTP or something else to a port where others speak Kafka in the clear. A client with security.protocol=SSL on a PLAINTEXT
  listener, a health check of a load balancer, or a scan.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  not_kafka: "what it looks like: tls, http, ssh, unknown"
  connections: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Correct security.protocol or the port of that client; let health checks open a connection and send nothing.
reference: https://kafka.apache.org/documentation/#producerconfigs_security.protocol
parameters:
  min_connections: {default: 3, meaning: "Fewer such connections from an address to a broker are not listed."}
needs: [client_connections]
verdict: "{rows:address speaks/addresses speak} something else to a Kafka port. Most: {client_address} to {broker}, {not_kafka}, {connections:connection/connections}. Correct its security.protocol or port."
order: 44
*/
WITH found AS (
    SELECT
        client_address,
        broker,
        not_kafka,
        max(client_id) AS client_id,
        max(software) AS software,
        count(*) AS connections,
        min(first_seen_at) AS first_at,
        max(last_seen_at) AS last_at,
        min(connection_id) AS connection_id
    FROM client_connections
    WHERE not_kafka IS NOT NULL AND broker IN (SELECT broker FROM client_connections WHERE requests > 0)
    GROUP BY client_address, broker, not_kafka
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    not_kafka,
    connections,
    first_at,
    last_at,
    connection_id,
    CAST(NULL AS BIGINT) AS exchange
FROM found
WHERE connections >= :min_connections
ORDER BY connections DESC, client_address, broker, not_kafka
