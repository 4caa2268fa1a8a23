/*
id: old_tls
title: Connections with a version of TLS that is no longer safe
severity: notice
meaning: TLS 1.0 and 1.1 were withdrawn in 2021 (RFC 8996), SSL 3.0 in 2015. Java disables them by default, so these clients stop working at an update too.
basis:
  rests_on: the version in the TLS handshake
  certainty: said
  wrong_if: a proxy in front of the broker answered in its place
columns:
  tls_version: negotiated version
  connections: ""
action: Update the client's TLS library and set ssl.enabled.protocols=TLSv1.2,TLSv1.3 on client and broker.
reference: https://kafka.apache.org/documentation/#brokerconfigs_ssl.enabled.protocols
parameters:
  min_connections: {default: 1, meaning: "Fewer such connections of a client to a broker are not listed."}
verdict: "{rows:client uses/clients use} an unsafe version of TLS. {most connections}: {client_id} at {client_address} to {broker}, {tls_version}, {connections:connection/connections}. Update it to TLS 1.2 or 1.3."
order: 47
only_if: FROM connections WHERE tls_version IN ('SSL 2.0', 'SSL 3.0', 'TLS 1.0', 'TLS 1.1')
frame:
  group_by: [client_id, client_address, broker, tls_version]
  values:
    connections: count(*)
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(connection_id := connection_id, exchange := CAST(NULL AS BIGINT)))
  having: connections >= $min_connections
  order_by: connections DESC
*/
SELECT *
FROM client_connections
WHERE tls_version IN ('SSL 2.0', 'SSL 3.0', 'TLS 1.0', 'TLS 1.1')
