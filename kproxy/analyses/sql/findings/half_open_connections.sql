/*
id: half_open_connections
title: Idle connections that something between client and broker forgot
severity: notice
meaning: >
  A connection was idle, and the next request on it was reset at once, or had no answer at all, although the broker answered others: a
  firewall, a load balancer or NAT drops connections that are idle for long and tells neither side. The client waits until
  request.timeout.ms, and sends the request again.
basis:
  rests_on: requests without an answer after a minute or more without traffic, and what the broker answered others
  certainty: inferred
  wrong_if: the broker's host was started anew without a word, or the capture lost the answers
columns:
  severity: "warning: a client waited for harm_seconds or longer; notice: it was told at once"
  broker: ""
  how: "reset: an RST from the broker's address; no answer"
  connections: ""
  idle_seconds: the shortest time without traffic before
  waited_ms: milliseconds that the client waited at most
  api_name: of the first of these requests
action: >
  Set connections.max.idle.ms of the client below that time (idle_seconds at most), so that it closes idle connections itself; or have TCP
  keep them alive (socket.keepalive.enable of librdkafka, with net.ipv4.tcp_keepalive_time of the host below that time); or raise the idle
  timeout of what stands between.
reference: https://kafka.apache.org/documentation/#producerconfigs_connections.max.idle.ms
parameters:
  min_connections: {default: 1, least: 1, meaning: "Fewer such connections of a client to a broker are not listed."}
  harm_seconds: {default: 5, meaning: "A client that waited for this long was harmed."}
sampled: The answers may be among the exchanges that are missing.
verdict: "{count client_id:client uses/clients use} connections that something forgot while they were idle. {most connections}: {client_id} at {client_address}, {connections:connection/connections} to {broker} after {idle_seconds:,} s or more without traffic, {how}[, and it waited {waited_ms:ms}]. Set connections.max.idle.ms below that, or keep connections alive."
order: 27
only_if: >-
  FROM exchanges
  HAVING count(unanswered) >= $min_connections AND max(epoch_us(request_at)) - min(epoch_us(request_at)) >= 60000000
frame:
  group_by: [client_id, client_address, cluster, broker, how]
  values:
    connections: count(*)
    idle_seconds: min(idle_us) // 1000000
    waited_ms: max(waited_us) // 1000
    api_name: min_by(api_name, at_us)
  derived:
    severity: CASE WHEN waited_ms >= $harm_seconds * 1000 THEN 'warning' ELSE 'notice' END
  having: connections >= $min_connections
  order_by: waited_ms DESC, connections DESC
*/
SELECT f.client_id, f.client_address, f.cluster, f.broker, f.software, f.how, f.idle_us, f.waited_us, f.at_us, f.connection_id, f.exchange,
    e.api_name, e.request_at AS seen_at
FROM forgotten_connections AS f
JOIN exchanges AS e ON e.connection_id = f.connection_id AND e.exchange = f.exchange
