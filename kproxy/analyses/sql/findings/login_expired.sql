/*
id: login_expired
title: Clients that do not log in again before their login ends
severity: notice
meaning: >
  The broker ends a login after some time (connections.max.reauth.ms, or the end of a token). Clients that know KIP-368 log in again on the same
  connection before that; others go on, and the broker closes their connection at the next request, which has no answer.
basis:
  rests_on: connections with SASL that the broker closed with a request open, all after nearly the same time
  certainty: inferred
  wrong_if: something between them closes connections after that time
columns:
  connections: that the broker closed so
  seconds: that the shortest of them lasted
  longest_seconds: that the longest of them lasted
  sasl_mechanism: ""
  user_name: ""
action: Upgrade the client to a release that logs in again (KIP-368), or raise connections.max.reauth.ms.
reference: https://kafka.apache.org/documentation/#brokerconfigs_connections.max.reauth.ms
parameters:
  min_connections: {default: 3, meaning: "Clients with fewer such connections to a broker are not listed."}
verdict: "{rows:client does/clients do} not log in again before the login ends. {most connections}: {broker} closed {connections:connection/connections} of {client_id} at {client_address}, each with a request open and at most {longest_seconds:,} s old. Upgrade it to a release that logs in again (KIP-368), or raise connections.max.reauth.ms."
order: 51
only_if: FROM connections WHERE sasl_mechanism IS NOT NULL AND closed_by = 'broker' AND unanswered > 0 HAVING count(*) >= $min_connections
frame:
  group_by: [client_id, client_address, cluster, broker, sasl_mechanism, user_name]
  values:
    connections: count(*)
    seconds: min(lasted_us) // 1000000
    longest_seconds: max(lasted_us) // 1000000
  having: connections >= $min_connections
  order_by: connections DESC
*/
SELECT c.client_id, c.client_address, c.cluster, c.broker, c.software, c.sasl_mechanism, c.user_name, e.lasted_us, x.seen_at, x.at_us,
    x.connection_id, x.exchange
FROM expired_logins AS e
JOIN client_connections AS c ON c.connection_id = e.connection_id
JOIN client_exchanges AS x ON x.connection_id = e.connection_id AND x.unanswered IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY e.connection_id ORDER BY x.exchange) = 1
