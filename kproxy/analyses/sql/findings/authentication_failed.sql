/*
id: authentication_failed
title: Logins that the broker refused
severity: warning
meaning: >
  SASL failed: a wrong password or token, an unknown user, or a mechanism that the listener does not offer. Clients that retry keep the
  broker busy; guessing looks the same.
basis:
  rests_on: errors in answers to SaslAuthenticate and SaslHandshake, and connections that the broker closed during a login without one
  certainty: said
  wrong_if: it is a test of a wrong password
columns:
  failures: logins that the broker refused
  error_name: "connection closed: there was no answer with an error, as after SaslHandshake v0"
  change: what to correct
action: Correct the credentials or sasl.mechanism of that client; many users tried from one address may be an attack.
reference: https://kafka.apache.org/documentation/#security_sasl
parameters:
  min_failures: {default: 1, meaning: "Fewer failures of a user from an address are not listed."}
verdict: "{sum failures:login/logins} refused. {most failures}: [user {user_name}|a user] from {client_address} ({client_id}), {failures:time/times} by {sasl_mechanism}: {error_name}. Correct {change}; many users from one address may be an attack."
order: 25
only_if: FROM connections WHERE sasl_mechanism IS NOT NULL
frame:
  group_by: [client_id, client_address, user_name, sasl_mechanism, broker, error_name]
  values: {failures: count(*)}
  derived:
    change: CASE WHEN error_name = 'UNSUPPORTED_SASL_MECHANISM' THEN 'its sasl.mechanism, or sasl.enabled.mechanisms of the broker' ELSE 'its credentials or mechanism' END
  having: failures >= $min_failures
  order_by: failures DESC
*/
SELECT r.client_id, r.client_address, r.software, r.broker, r.cluster, r.seen_at, r.at_us, r.connection_id, r.exchange, r.error_name,
    c.user_name, c.sasl_mechanism
FROM client_errors AS r
JOIN connections AS c ON c.connection_id = r.connection_id
WHERE r.api_key IN (17, 36) AND r.error_code IN (33, 58) -- 34, ILLEGAL_SASL_STATE, is of a listener without logins: see reconnect_loop
UNION ALL
SELECT e.client_id, e.client_address, e.software, e.broker, e.cluster, e.seen_at, e.at_us, e.connection_id, e.exchange, 'connection closed',
    c.user_name, c.sasl_mechanism
FROM client_exchanges AS e
JOIN client_connections AS c ON c.connection_id = e.connection_id
WHERE e.api_key = 17 AND e.api_version = 0 AND len(e.error_codes) = 0 AND c.closed_by = 'broker'
    AND c.closed_us - epoch_us(e.response_at) < 5000000
    AND NOT EXISTS (SELECT 1 FROM exchanges AS n WHERE n.connection_id = e.connection_id AND n.exchange > e.exchange)
