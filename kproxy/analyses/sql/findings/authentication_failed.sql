/*
id: authentication_failed
title: Logins that the broker refused
severity: warning
meaning: >
  SASL failed: a wrong password or token, an unknown user, or a mechanism that the listener does not offer. Clients that retry keep the
  broker busy; guessing looks the same.
basis:
  rests_on: errors in answers to SaslAuthenticate and SaslHandshake
  certainty: said
  wrong_if: it is a test of a wrong password
columns:
  failures: logins that the broker refused
  error_name: ""
action: Correct the credentials or sasl.mechanism of that client; many users tried from one address may be an attack.
reference: https://kafka.apache.org/documentation/#security_sasl
parameters:
  min_failures: {default: 1, meaning: "Fewer failures of a user from an address are not listed."}
verdict: "{sum failures:login/logins} refused. {most failures}: user {user_name} from {client_address} ({client_id}), {failures:time/times} by {sasl_mechanism}: {error_name}. Correct its credentials or mechanism; many users from one address may be an attack."
order: 25
only_if: FROM errors WHERE error_code IN (33, 34, 58)
frame:
  group_by: [client_id, client_address, user_name, sasl_mechanism, broker, error_name]
  values: {failures: count(*)}
  having: failures >= $min_failures
  order_by: failures DESC
*/
SELECT r.*, c.user_name, c.sasl_mechanism
FROM client_errors AS r
JOIN connections AS c ON c.connection_id = r.connection_id
WHERE r.api_key IN (17, 36) AND r.error_code IN (33, 34, 58)
