/*
id: tls_failed
title: Clients whose TLS handshake fails
severity: warning
meaning: >
  TLS between a client and a broker ends by an alert before any data: one side does not trust the certificate of the other, a
  certificate has expired or is missing, or they share no version or cipher. The side that sends the alert is the one that refuses.
  In TLS 1.3 most alerts are encrypted: then only their side and place are known.
basis:
  rests_on: alerts of TLS that were captured, and in TLS 1.3 the sizes of encrypted records
  certainty: measured
  wrong_if: it is a scan or a monitor that tries what ought to be refused
columns:
  alert: "side that refuses, and why: as TLS calls it"
  cause: what the alert means
  change: what to change
  tls_server_name: name of the broker that the client expects in the certificate (SNI); none
  connections: connections that ended so
  connections_that_worked: other connections of that client address at that broker, without such an alert
  seconds: ""
action: Change what the row says. openssl s_client -connect BROKER shows the certificate that the broker sends.
reference: https://kafka.apache.org/documentation/#security_ssl
parameters:
  min_connections: {default: 3, meaning: "Fewer such connections of a client address to a broker are not listed."}
verdict: "TLS of {count client_address:client host/client hosts} fails. {most connections}: {client_address} to {broker}, {connections:connection/connections}, {cause} ({alert}). Change {change}."
order: 13
only_if: FROM connections WHERE len(tls_alerts) > 0 HAVING count(*) >= $min_connections
frame:
  group_by: [client_id, client_address, broker, cause]
  values:
    alert: min(alert)
    change: max(change)
    tls_server_name: coalesce(max(tls_server_name), 'none')
    connections: count(*)
    connections_that_worked: max(worked)
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(at_us := at_us, connection_id := connection_id, exchange := CAST(NULL AS BIGINT)))
  having: connections >= $min_connections
  order_by: connections DESC
*/
WITH alerted AS (
    SELECT c.*, r.tls_alerts[1] AS alert, r.tls_server_name, c.first_seen_us AS at_us, split_part(r.tls_alerts[1], ':', 1) AS side,
        regexp_replace(r.tls_alerts[1], '^[a-z]+: (fatal )?', '') AS name
    FROM client_connections AS c
    JOIN connections AS r ON r.connection_id = c.connection_id
    WHERE len(r.tls_alerts) > 0 AND c.responses = 0
        -- without Kafka that can be read, only the port says that it is one
        AND (is_kafka_port(r.broker_port)
            OR c.broker IN (SELECT address FROM advertised_brokers)
            OR c.broker IN (SELECT broker FROM client_connections WHERE responses > 0))
), scanners AS ( -- they try whatever there is
    SELECT client_address FROM alerted GROUP BY client_address HAVING count(DISTINCT alert) > 3
), worked AS (
    SELECT c.client_address, c.broker, count(*) AS connections
    FROM client_connections AS c
    JOIN connections AS r ON r.connection_id = c.connection_id
    WHERE r.tls_version IS NOT NULL AND len(r.tls_alerts) = 0
    GROUP BY c.client_address, c.broker
), caused AS (
    SELECT a.*, coalesce(w.connections, 0) AS worked,
        CASE
            WHEN name IN ('protocol_version') THEN 'no version of TLS in common'
            WHEN name IN ('insufficient_security') THEN 'no cipher in common'
            WHEN name = 'unrecognized_name' THEN 'the broker has no certificate for the name that the client expects'
            WHEN name = 'certificate_expired' AND side = 'client' THEN 'the certificate of the broker has expired'
            WHEN name = 'certificate_expired' THEN 'the certificate of the client has expired'
            WHEN name IN ('unknown_ca', 'certificate_unknown', 'bad_certificate', 'unsupported_certificate', 'certificate_revoked') AND side = 'client'
                THEN 'the client does not accept the certificate of the broker'
            WHEN name IN ('unknown_ca', 'certificate_unknown', 'bad_certificate', 'unsupported_certificate', 'certificate_revoked')
                THEN 'the broker does not accept the certificate of the client, or misses it'
            WHEN name = 'certificate_required' THEN 'the client sends no certificate'
            WHEN name LIKE 'an alert that only%' AND side = 'broker' THEN 'the broker refuses what the client sent last, most likely its certificate'
            WHEN name LIKE 'an alert that only%' THEN 'the client refuses what the broker sent, most likely its certificate'
            ELSE side || ' refuses the handshake'
        END AS cause
    FROM alerted AS a
    LEFT JOIN worked AS w ON w.client_address = a.client_address AND w.broker = a.broker
    WHERE NOT EXISTS (SELECT 1 FROM scanners AS s WHERE s.client_address = a.client_address)
        -- a probe that ends the connection after the handshake gets an alert as well: that the broker ends it, too
        AND (name NOT LIKE 'an alert that only%' OR side <> 'broker' OR closed_by = 'broker')
)
SELECT *,
    CASE
        WHEN cause LIKE 'no version%' THEN 'ssl.enabled.protocols of one of them'
        WHEN cause LIKE 'no cipher%' THEN 'ssl.cipher.suites of one of them'
        WHEN cause LIKE '%name that%' THEN 'the address that the client uses, or the certificate of the broker'
        WHEN cause = 'the certificate of the broker has expired' THEN 'the certificate of the broker'
        WHEN cause = 'the certificate of the client has expired' THEN 'the certificate of the client'
        WHEN side = 'client' THEN 'ssl.truststore.location or ssl.ca.location, or the certificate of the broker'
        WHEN cause LIKE '%certificate%' THEN 'ssl.keystore.location of the client, or ssl.truststore.location of the broker'
        ELSE 'what the log of the broker names'
    END AS change
FROM caused
