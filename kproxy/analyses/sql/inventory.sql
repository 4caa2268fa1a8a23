/*
id: inventory
title: Every client, its software, and the APIs that it uses
severity: info
meaning: >-
  Every client (client id, principal and software), its library, and the APIs that it uses.
columns:
  client_id: ""
  software: as the client names it in ApiVersions (KIP-511), or inferred
  software_version: ""
  inferred: whether the software was inferred; evidence says from what
  addresses: client addresses
  connections: number of connections
  requests: number of requests
  failed_requests: requests answered with an error code
  principal: ""
  role: "broker: traffic of brokers among themselves"
  evidence: "where the software is from: ApiVersions, another connection, client id, API versions"
  uses: APIs and versions that it used
  library: the line of client_versions that knows the software
  brokers: host:port of the brokers it talks to
  sasl_mechanisms: SASL mechanisms it uses
  tls_versions: "TLS versions it uses; empty: none"
  request_bytes: bytes of requests
  response_bytes: bytes of responses
  first_micros: ""
  last_micros: ""
action: Give each application a client.id of its own, and bring software without a name up to date.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-511
parameters: {}
verdict: "{rows where role=client:client/clients}[ and {rows where role=broker:client id/client ids} of brokers] in all; {count software:kind/kinds} of software[; unknown software: {rows where software=null}]. {most requests} requests: {client_id}[, {software}[ {software_version}]], {requests:,}"
order: 40
*/
WITH requests AS (
  SELECT c.client, e.api_key,
    max(coalesce(e.api_name, 'API ' || CAST(e.api_key AS VARCHAR))) AS api_name,
    min(e.api_version) AS lowest,
    max(e.api_version) AS highest,
    count(*) AS requests,
    sum(CASE WHEN len(e.error_codes) > 0 THEN 1 ELSE 0 END) AS failed
  FROM exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE e.api_key IS NOT NULL
  GROUP BY c.client, e.api_key
), uses AS (
  SELECT client,
    list_transform(
      list_sort(list({
        'api_key': api_key,
        'text': api_name || ' v' || CAST(lowest AS VARCHAR) || CASE WHEN highest > lowest THEN '-' || CAST(highest AS VARCHAR) ELSE '' END
      })),
      lambda each: each.text
    ) AS uses,
    sum(requests) AS requests,
    sum(failed) AS failed_requests
  FROM requests
  GROUP BY client
), who AS (
  SELECT c.client, c.client_id, c.principal, c.software, c.software_version,
    min(c.inferred) AS inferred,
    array_to_string(sorted_set(c.evidence), ', ') AS evidence,
    min(c.library) AS library,
    CASE WHEN min(c.role) = 'broker' THEN 'broker' ELSE 'client' END AS role,
    sorted_set(c.client_address) AS addresses,
    sorted_set(c.broker_address || ':' || CAST(c.broker_port AS VARCHAR)) AS brokers,
    sorted_set(k.sasl_mechanism) AS sasl_mechanisms,
    sorted_set(k.tls_version) AS tls_versions,
    count(*) AS connections,
    sum(k.request_bytes) AS request_bytes,
    sum(k.response_bytes) AS response_bytes,
    min(epoch_us(k.first_seen_at)) AS first_micros, max(epoch_us(k.last_seen_at)) AS last_micros
  FROM clients c
  JOIN connections k ON k.connection_id = c.connection_id
  WHERE k.not_kafka IS NULL
  GROUP BY c.client, c.client_id, c.principal, c.software, c.software_version
)
SELECT w.client_id, w.principal, w.software, w.software_version, w.inferred,
  nullif(w.evidence, '') AS evidence,
  w.library, w.role, w.addresses, w.brokers, w.sasl_mechanisms, w.tls_versions, w.connections,
  coalesce(u.requests, 0) AS requests,
  coalesce(u.failed_requests, 0) AS failed_requests,
  w.request_bytes, w.response_bytes, u.uses, w.first_micros, w.last_micros
FROM who w
LEFT JOIN uses u ON u.client = w.client
ORDER BY requests DESC, w.client_id, w.principal, w.software, w.software_version
