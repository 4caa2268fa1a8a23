/*
id: silent_refusals
title: Producers that want no answer, and whose connections the broker closes
severity: warning
meaning: >
  With acks=0 a broker cannot answer that it refuses records, so it closes the connection; the producer connects anew and goes on. What was
  refused is lost, and no error shows it: mostly records larger than the topic takes.
basis:
  rests_on: connections that the broker closed right after a Produce request with acks=0, again and again
  certainty: inferred
  wrong_if: the broker closed them for another reason, such as its limits of connections, or a restart
columns:
  broker: ""
  connections: that ended with such a request
  records: in the last request of each
  largest_bytes: of the largest of these batches
  between_seconds: whole seconds from one such end to the next, on average
action: Set acks=1 or all for a while, and read the error; compare the size of the batch with max.message.bytes of the topic.
reference: https://kafka.apache.org/documentation/#producerconfigs_acks
parameters:
  min_connections: {default: 3, meaning: "Producers with fewer such connections to a broker are not listed."}
  most_seconds: {default: 60, meaning: "How far apart these connections end, on average, at most: later ends are restarts of brokers."}
  most_ms: {default: 1000, meaning: "How long after the request the broker closes the connection, at most."}
verdict: "{count client_id:producer seems/producers seem} to lose records without an error. {most records}: {broker} closed {connections:connection/connections} of {client_id} at {client_address} right after batches for {topic} with acks=0, {records:record/records} in all, up to {largest_bytes:bytes}. Set acks=1 to see the error."
order: 10
only_if: FROM exchanges WHERE api_key = 0 AND acks = 0 HAVING count(*) >= $min_connections
frame:
  group_by: [client_id, client_address, cluster, broker, topic]
  values:
    records: CAST(sum(count) AS BIGINT)
    between_seconds: (max(closed_us) - min(closed_us)) // 1000000 // count(DISTINCT connection_id)
  having: connections >= $min_connections AND between_seconds <= $most_seconds
  order_by: records DESC
*/
WITH last_requests AS (
    SELECT e.connection_id, e.exchange, c.closed_us
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    WHERE c.closed_by = 'broker' AND c.closed_us IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY e.connection_id ORDER BY e.exchange DESC) = 1
)
SELECT b.client_id, b.client_address, b.cluster, b.broker, b.software, coalesce(b.topic, b.topic_id) AS topic, b.count, b.size, b.seen_at, b.at_us,
    b.connection_id, b.exchange, l.closed_us
FROM client_batches AS b
JOIN last_requests AS l ON l.connection_id = b.connection_id AND l.exchange = b.exchange
WHERE b.direction = 'produce' AND b.acks = 0 AND l.closed_us - b.at_us <= $most_ms * 1000
    AND NOT EXISTS ( -- a broker that closes those of others as well ends, or makes room
        SELECT 1 FROM client_connections AS o
        WHERE o.broker = b.broker AND o.closed_by = 'broker' AND o.closed_us BETWEEN l.closed_us - 2000000 AND l.closed_us + 2000000
            AND (o.client_address <> b.client_address OR o.client_id IS DISTINCT FROM b.client_id))
