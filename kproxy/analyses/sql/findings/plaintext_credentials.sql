/*
id: plaintext_credentials
title: Passwords and tokens that cross the network in the clear
severity: critical
meaning: >
  SASL PLAIN sends the password as it is, OAUTHBEARER a token that works for whoever has it, and these connections have no TLS. Anyone
  on the path can read and use them. (A capture that was decrypted before it came here, as kproxy run --capture writes it, looks so too.)
columns:
  client_id: ""
  client_address: ""
  software: ""
  user_name: ""
  sasl_mechanism: ""
  broker: ""
  connections: with a login in the clear
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Use security.protocol=SASL_SSL on this listener, then change the passwords that were sent; SCRAM without TLS is only a little better.
reference: https://kafka.apache.org/documentation/#security_sasl_plain_production
parameters:
  min_connections: {default: 1, meaning: "Fewer such connections of a user are not listed."}
needs: [client_connections, exchanges]
verdict: "{rows:user sends/users send} credentials in the clear. Most: {user_name} from {client_address} ({client_id}) by {sasl_mechanism} to {broker}, {connections:connection/connections}. Use SASL_SSL, then change what was sent."
order: 30
*/
WITH logins AS (
    SELECT connection_id, min(exchange) AS exchange
    FROM exchanges
    WHERE api_key IN (17, 36)
    GROUP BY connection_id
),
found AS (
    SELECT
        c.client_id,
        c.client_address,
        c.user_name,
        c.sasl_mechanism,
        c.broker,
        max(c.software) AS software,
        count(*) AS connections,
        min(c.first_seen_at) AS first_at,
        max(c.last_seen_at) AS last_at,
        min(struct(coalesce(c.first_seen_us, 0) AS seen_us, c.connection_id, l.exchange)) AS example
    FROM client_connections AS c
    LEFT JOIN logins AS l ON l.connection_id = c.connection_id
    WHERE c.sasl_mechanism IN ('PLAIN', 'OAUTHBEARER') AND c.tls_version IS NULL
    GROUP BY c.client_id, c.client_address, c.user_name, c.sasl_mechanism, c.broker
)
SELECT
    client_id,
    client_address,
    software,
    user_name,
    sasl_mechanism,
    broker,
    connections,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE connections >= :min_connections
ORDER BY connections DESC, client_id, client_address, user_name, sasl_mechanism, broker
