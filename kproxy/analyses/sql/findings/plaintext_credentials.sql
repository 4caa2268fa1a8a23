/*
id: plaintext_credentials
title: Passwords and tokens that cross the network in the clear
severity: warning
meaning: >
  SASL PLAIN sends the password as it is, OAUTHBEARER a token that works for anyone, and these connections have no TLS. Anyone
  on the path can read and use them. (A capture that was decrypted before it came here, as kproxy run --capture writes it, looks so too.)
basis:
  rests_on: SASL PLAIN or OAUTHBEARER on connections without TLS
  certainty: measured
  wrong_if: the capture was decrypted before it came here, or was taken behind a proxy that ends TLS
columns:
  connections: connections with a login in the clear
action: Use security.protocol=SASL_SSL on this listener, then change the passwords that were sent; SCRAM without TLS is only a little better.
reference: https://kafka.apache.org/documentation/#security_sasl_plain_production
parameters:
  min_connections: {default: 1, meaning: "Fewer such connections of a user are not listed."}
verdict: "{count user_name:user sends/users send} credentials in the clear. {most connections}: {user_name} from {client_address} ({client_id}) by {sasl_mechanism} to {broker}, {connections:connection/connections}. Use SASL_SSL, then change these credentials."
order: 30
only_if: FROM connections WHERE sasl_mechanism IN ('PLAIN', 'OAUTHBEARER') AND tls_version IS NULL
frame:
  group_by: [client_id, client_address, "coalesce(user_name, 'unknown') AS user_name", sasl_mechanism, broker]
  values:
    connections: count(*)
    first_at: min(first_seen_at)
    last_at: max(last_seen_at)
    example: min(struct_pack(seen_us := coalesce(first_seen_us, 0), connection_id := connection_id, exchange := exchange))
  having: connections >= $min_connections
  order_by: connections DESC
*/
WITH logins AS (
    SELECT connection_id, min(exchange) AS exchange
    FROM exchanges
    WHERE api_key IN (17, 36)
    GROUP BY connection_id
), refused AS ( -- a client sends its password only after the listener has said that it offers the mechanism
    SELECT connection_id
    FROM exchanges
    WHERE api_key IN (17, 36)
    GROUP BY connection_id
    HAVING bool_and(api_key = 17 AND (response_at IS NULL OR len(error_codes) > 0))
)
SELECT c.*, l.exchange
FROM client_connections AS c
LEFT JOIN logins AS l ON l.connection_id = c.connection_id
LEFT JOIN refused AS r ON r.connection_id = c.connection_id
WHERE r.connection_id IS NULL AND c.sasl_mechanism IN ('PLAIN', 'OAUTHBEARER') AND c.tls_version IS NULL
