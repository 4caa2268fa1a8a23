/*
id: forgotten_sessions
title: Brokers that forget the fetch sessions of clients again and again
severity: notice
meaning: >
  The broker answers Fetch after Fetch of the same connection with FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH: it has evicted the
  fetch session, in which a client sends only what changed (KIP-227). Each time the client sends a full Fetch of all its
  partitions, which costs a round trip and work of the broker. More clients and followers fetch from the broker than it
  has places for sessions (max.incremental.fetch.session.cache.slots, 1,000 by default). One such answer after a restart or a pause is normal.
basis:
  rests_on: these two errors on connections that went on to fetch
  certainty: said
  wrong_if: a proxy or a load balancer sends the requests of one connection to several brokers
columns:
  severity: "warning: a fifth of the Fetch requests of these connections was refused, at least ten a minute; notice: fewer"
  broker: ""
  errors: answers with one of these errors
  percent: of the Fetch requests of these connections
  connections: with min_errors or more of them
  seconds: from the first of them to the last
  cluster: ""
action: Look at the broker's metrics IncrementalFetchSessionEvictionsPerSec and NumIncrementalFetchSessions; raise max.incremental.fetch.session.cache.slots, or look for programs that open many consumers.
reference: https://kafka.apache.org/documentation/#brokerconfigs_max.incremental.fetch.session.cache.slots
parameters:
  min_errors: {default: 5, least: 2, meaning: "Connections with fewer such answers are not counted."}
  max_minutes: {default: 10, meaning: "Connections with such an answer more seldom, on average, are not counted: each may follow a pause."}
verdict: "{rows:broker forgets/brokers forget} fetch sessions of clients again and again. {most errors}: {broker}, {errors:time/times} in {seconds:,} s on {connections:connection/connections}, {percent:,} % of their Fetch requests, such as those of {client_id} at {client_address}. Raise max.incremental.fetch.session.cache.slots if its evictions rise with them."
order: 46
only_if: FROM errors WHERE api_key = 1 AND error_code IN (70, 71) HAVING count(*) >= $min_errors
frame:
  order_by: severity = 'warning' DESC, errors DESC, broker, cluster
*/
WITH refused AS (
    SELECT connection_id, min(client_id) AS client_id, min(client_address) AS client_address, min(software) AS software, broker, cluster,
        count(*) AS errors, min(exchange) AS exchange, min(at_us) AS first_us, max(at_us) AS last_us
    FROM client_errors
    WHERE api_key = 1 AND error_code IN (70, 71)
    GROUP BY connection_id, broker, cluster
    HAVING count(*) >= $min_errors AND max(at_us) - min(at_us) <= count(*) * $max_minutes * 60000000
), fetches AS ( -- where none is answered otherwise, the request is refused for good
    SELECT e.connection_id, count(*) AS fetches
    FROM exchanges AS e
    JOIN refused AS r ON r.connection_id = e.connection_id
    WHERE e.api_key = 1
    GROUP BY e.connection_id
    HAVING count(CASE WHEN e.exchange > r.exchange AND len(e.error_codes) = 0 THEN 1 END) > 0
), brokers AS (
    SELECT r.cluster, r.broker, CAST(sum(r.errors) AS BIGINT) AS errors, CAST(sum(f.fetches) AS BIGINT) AS fetches, count(*) AS connections,
        min(r.first_us) AS first_us, max(r.last_us) AS last_us, min(example_of(r.first_us, r.connection_id, r.exchange)) AS example
    FROM refused AS r
    JOIN fetches AS f ON f.connection_id = r.connection_id
    GROUP BY r.cluster, r.broker
)
SELECT CASE WHEN b.errors * 5 >= b.fetches AND b.errors * 6000000 >= b.last_us - b.first_us THEN 'warning' ELSE 'notice' END AS severity,
    r.client_id, r.client_address, r.software, b.broker, b.errors, b.errors * 100 // b.fetches AS percent, b.connections,
    (b.last_us - b.first_us) // 1000000 AS seconds, b.cluster, make_timestamptz(b.first_us) AS first_at, make_timestamptz(b.last_us) AS last_at,
    b.example.connection_id AS connection_id, b.example.exchange AS exchange
FROM brokers AS b
JOIN refused AS r ON r.connection_id = b.example.connection_id AND r.broker = b.broker AND r.cluster = b.cluster
