/*
id: stale_leader
title: Clients that do not follow a change of leader
severity: critical
meaning: >
  A broker answers NOT_LEADER_OR_FOLLOWER (or FENCED_LEADER_EPOCH) on the same connection for the same partition again and again. The
  client ought to ask for metadata and go to the new leader; it did not, or gets old metadata, or several brokers advertise one address, and
  what it asks of the leader comes to another broker. It is critical where the client
  produced to or read from the partition nowhere after the first such answer.
basis:
  rests_on: NOT_LEADER_OR_FOLLOWER on one connection, and no success elsewhere
  certainty: said
  wrong_if: the client produced or read elsewhere over a connection that was not captured
columns:
  severity: "critical: nothing of the partition succeeded after that; warning: something did"
  api_name: ""
  error_name: ""
  errors: answers that the broker does not lead the partition
  succeeded: batches produced and fetches of that partition by the client, on any connection, after the first such answer
  shared_address: address that several brokers advertise to it; empty if none do
  seconds: ""
action: >
  Where brokers share an address, give each one its own in advertised.listeners. Else restart this client now; then update it, and
  check that each broker's advertised.listeners can be reached from there.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers on one connection for a partition are not listed."}
  min_seconds: {default: 5, meaning: "Clients that followed within this time are not listed."}
sampled: Metadata requests and fetches elsewhere in between may be among the exchanges that are missing.
verdict: "{rows:client of a partition does/clients of partitions do} not follow its new leader. {most errors}: {client_id} at {client_address} asks {broker} for {topic}-{partition}, {errors:time/times} in {seconds:,} s. [Give each broker an address of its own in advertised.listeners: several advertise {shared_address}|Restart that client; then check advertised.listeners and update it]."
order: 18
only_if: FROM errors WHERE api_key IN (0, 1, 2) AND error_code IN (6, 74) HAVING count(*) >= $min_errors
frame:
  group_by: [connection_id, client_id, client_address, cluster, broker, resource AS topic, partition]
  pause: pause_seconds
  values:
    succeeded: CAST(max(succeeded) AS BIGINT)
    shared_address: max(shared_address)
  derived:
    severity: CASE WHEN succeeded = 0 THEN 'critical' ELSE 'warning' END
  having: errors >= $min_errors AND seconds >= $min_seconds
  order_by: succeeded = 0 DESC, errors DESC
*/
WITH refused AS (
    SELECT *
    FROM client_errors
    WHERE api_key IN (0, 1, 2) AND error_code IN (6, 74) AND resource <> '__cluster_metadata'
), worked AS (
    SELECT client_id, client_address, cluster, topic, partition, at_us
    FROM client_offsets
    WHERE kind = 'fetch' AND error_code = 0
    UNION ALL
    SELECT client_id, client_address, cluster, topic, partition, at_us
    FROM client_batches
    WHERE direction = 'produce' AND error_code = 0
), bounced AS ( -- a leader that sends readers on to this replica (KIP-392) is no former one: see stuck_fetch_loop
    SELECT r.connection_id, r.resource, r.partition
    FROM (
        SELECT *, lead(at_us) OVER (PARTITION BY connection_id, resource, partition ORDER BY exchange) AS next_us
        FROM refused
        WHERE api_key = 1
    ) AS r
    JOIN (SELECT * FROM client_offsets WHERE kind = 'fetch' AND error_code = 0) AS w ON w.client_id IS NOT DISTINCT FROM r.client_id
        AND w.client_address = r.client_address AND w.cluster = r.cluster AND w.topic = r.resource AND w.partition = r.partition
        AND w.connection_id <> r.connection_id AND w.at_us > r.at_us AND w.at_us < r.next_us
    GROUP BY r.connection_id, r.resource, r.partition
    HAVING count(DISTINCT r.exchange) >= $min_errors
), later AS ( -- how much succeeded after it
    SELECT r.connection_id, r.exchange, r.resource, r.partition, count(*) AS succeeded
    FROM refused AS r
    JOIN worked AS w ON w.client_id IS NOT DISTINCT FROM r.client_id AND w.client_address = r.client_address
        AND w.cluster = r.cluster AND w.topic = r.resource
        AND w.partition = r.partition AND w.at_us > r.at_us AND w.at_us <= r.at_us + $pause_seconds * 1000000
    GROUP BY r.connection_id, r.exchange, r.resource, r.partition
)
SELECT r.*, coalesce(l.succeeded, 0) AS succeeded, a.shared_address
FROM refused AS r
LEFT JOIN shared_addresses AS a ON a.cluster = r.cluster AND a.client_address = r.client_address
LEFT JOIN later AS l ON l.connection_id = r.connection_id AND l.exchange = r.exchange AND l.resource = r.resource
    AND l.partition = r.partition
LEFT JOIN bounced AS b ON b.connection_id = r.connection_id AND b.resource = r.resource AND b.partition = r.partition
WHERE b.connection_id IS NULL
