/*
id: cut_connections
title: Connections that something ends after a fixed time, although they are in use
severity: warning
meaning: >
  Connection after connection of a client lived for the same time and was then ended from the broker's side in the middle of its work, while the
  broker went on with others: a load balancer, a proxy or a service mesh limits how long a connection may live. What was under way has no
  answer; the client connects anew, asks for metadata and sends it again. Or the broker ends each right after it answered the first requests, at
  least min_short_connections times. Logins that end are left out: see login_expired.
basis:
  rests_on: how long connections lived that were ended from the broker's side with a request open, or within half a second of their last message
  certainty: inferred
  wrong_if: the broker itself ends them, as a script that kills its connections does
columns:
  severity: "warning: three or more requests were left without an answer, or few were answered on each; notice: else"
  broker: ""
  connections: connections that ended so
  seconds: how long they lived, as a median
  unanswered: requests on them without an answer
  cluster: ""
action: Raise the time that the load balancer or proxy lets a connection live (as max_connection_duration of Envoy), or let clients reach the brokers without it.
reference: https://kafka.apache.org/documentation/#brokerconfigs_connections.max.idle.ms
parameters:
  min_connections: {default: 4, meaning: "Fewer such connections of a client to a broker are not listed."}
  min_short_connections: {default: 10, meaning: "Fewer that ended after the answers to at most four requests are not listed."}
  min_seconds: {default: 2, meaning: "Connections with more requests that lived for less are not looked at."}
verdict: "{count client_id:client loses/clients lose} connections in the middle of their work. {most connections}: {client_id} at {client_address} to {broker}, {connections:connection/connections}, each after {seconds:,} s[, {unanswered:request/requests} without an answer]. Look at what stands between them, and how long it lets a connection live."
order: 26
only_if: FROM connections WHERE closed_by = 'broker' HAVING count(*) >= $min_connections
frame:
  group_by: [client_id, client_address, cluster, broker]
  values:
    connections: count(*)
    seconds: CAST(round(median(lasted_us) / 1000000) AS BIGINT)
    unanswered: CAST(sum(unanswered) AS BIGINT)
    times: count(DISTINCT CASE WHEN requests <= 4 THEN closed_us // 1000000 END)
    longer: count(CASE WHEN requests > 4 THEN 1 END)
  derived: {severity: CASE WHEN unanswered >= 3 OR times >= $min_short_connections THEN 'warning' ELSE 'notice' END}
  having: longer >= $min_connections OR times >= $min_short_connections
  order_by: connections DESC
*/
WITH ended AS (
    SELECT *, closed_us - first_seen_us AS lasted_us,
        median(closed_us - first_seen_us) OVER of_client AS usual_us,
        count(*) OVER of_client AS of_all
    FROM client_connections AS c
    WHERE sasl_mechanism IS NULL AND closed_by = 'broker' AND (closed_us - last_seen_us <= 500000 OR unanswered > 0)
        AND CASE WHEN requests > 4 THEN closed_us - first_seen_us >= $min_seconds * 1000000 ELSE responses = requests AND requests > 0 END
        AND EXISTS ( -- the broker itself goes on
            FROM client_connections AS o
            WHERE o.broker = c.broker AND o.connection_id <> c.connection_id AND o.first_seen_us < c.closed_us AND o.last_seen_us > c.closed_us + 500000
                AND o.responses > 0)
        AND NOT EXISTS ( -- the broker refuses the request: see silent_refusals and reconnect_loop
            FROM exchanges AS x
            WHERE x.connection_id = c.connection_id AND (NOT x.expects_response OR (c.requests <= 4 AND len(x.error_codes) > 0) OR (x.unanswered IS NOT NULL AND x.request_size >= 65536)))
    WINDOW of_client AS (PARTITION BY client_id, client_address, cluster, broker)
), alike AS (
    SELECT *, count(*) OVER (PARTITION BY client_id, client_address, cluster, broker) AS like_others
    FROM ended
    WHERE abs(lasted_us - usual_us) <= greatest(usual_us // 20, 100000)
)
SELECT *, first_seen_at AS seen_at, first_seen_us AS at_us, CAST(NULL AS BIGINT) AS exchange
FROM alike
WHERE like_others * 3 >= of_all * 2
