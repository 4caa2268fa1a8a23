/*
id: old_tls
title: Connections with a version of TLS that is no longer safe
severity: warning
meaning: TLS 1.0 and 1.1 were withdrawn in 2021 (RFC 8996), SSL 3.0 in 2015. Java disables them by default, so these clients stop working at an update too.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  tls_version: negotiated version
  connections: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Update the client's TLS library and set ssl.enabled.protocols=TLSv1.2,TLSv1.3 on client and broker.
reference: https://kafka.apache.org/documentation/#brokerconfigs_ssl.enabled.protocols
parameters:
  min_connections: {default: 1, meaning: "Fewer such connections of a client to a broker are not listed."}
needs: [client_connections]
verdict: "{rows:client uses/clients use} an unsafe version of TLS. Most: {client_id} at {client_address} to {broker}, {tls_version}, {connections:connection/connections}. Update it to TLS 1.2 or 1.3."
order: 47
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        broker,
        tls_version,
        max(software) AS software,
        count(*) AS connections,
        min(first_seen_at) AS first_at,
        max(last_seen_at) AS last_at,
        min(connection_id) AS connection_id
    FROM client_connections
    WHERE tls_version IN ('SSL 2.0', 'SSL 3.0', 'TLS 1.0', 'TLS 1.1')
    GROUP BY client_id, client_address, broker, tls_version
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    tls_version,
    connections,
    first_at,
    last_at,
    connection_id,
    CAST(NULL AS BIGINT) AS exchange
FROM found
WHERE connections >= :min_connections
ORDER BY connections DESC, client_id, client_address, broker, tls_version
