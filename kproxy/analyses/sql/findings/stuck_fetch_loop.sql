/*
id: stuck_fetch_loop
title: Consumers that fetch the same offset again and again although there is more
severity: critical
meaning: >
  The consumer fetches from the same offset over and over, although the partition has records there. Either it gets them each time
  and goes back (a record that it cannot handle, retried for ever; it may read on in between, but commits nothing beyond), or it
  is a member of a group, dies of such a record and is started again at the same offset, or the broker returns nothing although there is
  something, or the client resets the connection at each answer, which is larger than it asked for: a record is larger than what it takes
  (receive.message.max.bytes).
basis:
  rests_on: fetches of one offset, although the partition goes on
  certainty: inferred
  wrong_if: the consumer reads the partition over a connection that was not captured, too
columns:
  broker: ""
  topic: ""
  partition: ""
  partition_offset: the offset that is fetched again and again
  readable_end: offset up to which the partition can be read
  fetches: fetches from this offset
  all_fetches: all fetches of the partition in this time
  with_records: fetches from this offset that were answered with records
  refused_by: another broker, which refused as many fetches of this partition by this client meanwhile
  seconds: ""
  cluster: ""
action: >
  If records came back: find the record at this offset (kproxy decode --records) that the application fails on; skip it or send it to a
  dead-letter topic; if it connects anew each time, compare the sizes of the answers with its limits. Where another broker refuses it,
  the leader sends it to that replica (client.rack, KIP-392), which does not take it: look at that broker, and unset client.rack until then. If none came back: look at the broker's log for that partition, and at fetch sizes below the size of a batch.
reference: https://kafka.apache.org/documentation/#consumerconfigs_max.partition.fetch.bytes
parameters:
  min_fetches: {default: 20, meaning: "Fewer fetches of the same offset are not listed."}
  min_seconds: {default: 5, meaning: "Consumers that went on within this time are not listed."}
  min_returns: {default: 10, meaning: "Fewer fetches with which a client goes back to the offset that it committed last are not listed."}
  min_restarts: {default: 5, meaning: "Fewer restarts of members of a group that begin at the same offset are not listed."}
  min_percent: {default: 30, most: 100, meaning: "Share of these among the consumer's fetches of the partition meanwhile; a client that reads a whole topic again and again has less."}
sampled: Fetches of other offsets in between may be among the exchanges that are missing.
verdict: "{rows:consumer of a partition is/consumers of partitions are} stuck: it fetches the same offset again and again. {most fetches}: {client_id} at {client_address}, offset {partition_offset:d} of {topic}-{partition}, {fetches:time/times} in {seconds:,} s, {with_records:,} of them with records; the partition goes on to {readable_end:d}. [{refused_by} refuses it in between: look at that broker, and unset client.rack|Look for a record there that it cannot handle]."
order: 15
only_if: >-
  FROM offsets WHERE kind = 'fetch'
  HAVING count(*) >= least($min_fetches, $min_returns, $min_restarts) AND max(epoch_us(seen_at)) - min(epoch_us(seen_at)) >= $min_seconds * 1000000
frame:
  derived: {partition_offset: position, seconds: us // 1000000}
  order_by: fetches DESC, client_id, client_address, topic, partition, partition_offset, connection_id, cluster
*/
WITH asked AS (
    SELECT *, CASE WHEN last_stable_offset >= 0 THEN last_stable_offset ELSE high_watermark END AS readable_end,
        lag(position) OVER (PARTITION BY connection_id, topic, partition ORDER BY exchange) AS last_position,
        lead(position) OVER (PARTITION BY connection_id, topic, partition ORDER BY exchange) AS next_position
    FROM fetch_positions
), repeated AS (
    SELECT connection_id, client_id, client_address, cluster, broker, topic, partition, position,
        max(software) AS software,
        count(*) AS fetches,
        count(CASE WHEN position < last_position THEN 1 END) AS returns,
        max(readable_end) AS readable_end,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        max(at_us) - min(at_us) AS us,
        min(exchange) AS exchange,
        max(exchange) AS last_exchange
    FROM asked
    WHERE error_code = 0 AND readable_end > position
    GROUP BY connection_id, client_id, client_address, cluster, broker, topic, partition, position
    HAVING count(*) >= least($min_fetches, $min_returns) AND max(at_us) - min(at_us) >= $min_seconds * 1000000
), committed AS ( -- what a client committed last of a partition, or found committed
    SELECT client_id, client_address, cluster, topic, partition, max_by(partition_offset, at_us) AS position
    FROM client_offsets
    WHERE kind IN ('commit', 'committed') AND coalesce(error_code, 0) = 0
    GROUP BY client_id, client_address, cluster, topic, partition
), delivered AS (
    SELECT connection_id, exchange, coalesce(topic, topic_id) AS topic, partition, 1 AS yes, max(CASE WHEN crc_valid = false THEN 1 END) AS is_damaged
    FROM record_batches
    WHERE direction = 'fetch'
    GROUP BY connection_id, exchange, coalesce(topic, topic_id), partition
), moves AS ( -- each answered fetch of a client, on whatever connection; answers that the client did not wait for have no end of the partition
    SELECT a.*, d.yes = 1 OR a.error_code IS NULL AS is_delivered,
        e.response_size > e.max_bytes AND e.max_bytes >= 1000 AND c.closed = 'reset' AND c.closed_by = 'client' AS is_rejected,
        max(a.readable_end) OVER (PARTITION BY a.cluster, a.topic, a.partition) AS end_of_all,
        lag(a.position) OVER (PARTITION BY a.client_id, a.client_address, a.cluster, a.topic, a.partition ORDER BY a.at_us, a.exchange) AS last_position
    FROM asked AS a
    JOIN exchanges AS e ON e.connection_id = a.connection_id AND e.exchange = a.exchange AND e.response_at IS NOT NULL
    JOIN client_connections AS c ON c.connection_id = a.connection_id
    LEFT JOIN delivered AS d
        ON d.connection_id = a.connection_id AND d.exchange = a.exchange AND d.topic = a.topic AND d.partition = a.partition
    WHERE coalesce(a.error_code, 0) = 0
), stays AS (
    SELECT *, count(CASE WHEN position <> last_position THEN 1 END) OVER (
        PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us, exchange) AS stay
    FROM moves
), reconnecting AS ( -- on one connection after the other, and never from another offset meanwhile
    SELECT min_by(connection_id, at_us) AS connection_id, min_by(exchange, at_us) AS exchange, client_id, client_address, cluster, broker,
        topic, partition, position,
        max(software) AS software,
        count(*) AS fetches,
        count(*) AS all_fetches,
        count(CASE WHEN is_delivered THEN 1 END) AS with_records,
        max(end_of_all) AS readable_end,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        max(at_us) - min(at_us) AS us
    FROM stays
    WHERE end_of_all > position
    GROUP BY client_id, client_address, cluster, broker, topic, partition, position, stay
    HAVING count(*) >= $min_fetches AND count(CASE WHEN is_rejected THEN 1 END) * 2 >= count(*) -- else it may only look at one record
        AND count(CASE WHEN next_position > position THEN 1 END) = 0 -- else it has the record, and asks for the next: a probe that looks at the last one
        AND count(DISTINCT connection_id) * 2 >= count(*) AND max(at_us) - min(at_us) >= $min_seconds * 1000000
), members AS ( -- that are restarted again and again
    SELECT DISTINCT l.cluster, s.client_id, s.client_address
    FROM group_restarts AS r
    JOIN group_lives AS l ON l.group_key = r.group_key
    JOIN group_spells AS s ON s.group_key = r.group_key AND s.first_micros <= r.to_micros AND s.last_micros >= r.from_micros
    WHERE r.cause = 'restart loop'
), beginnings AS ( -- the first Fetch of a partition on each connection
    SELECT v.*, m.client_address IS NOT NULL AS is_restarted, max(v.position) OVER (PARTITION BY v.client_address, v.cluster, v.topic, v.partition) AS last_beginning
    FROM (SELECT *, row_number() OVER (PARTITION BY connection_id, topic, partition ORDER BY exchange) AS nth FROM moves) AS v
    LEFT JOIN members AS m ON m.cluster = v.cluster AND m.client_id IS NOT DISTINCT FROM v.client_id AND m.client_address = v.client_address
    WHERE v.nth = 1
), restarting AS ( -- restarted members, or clients that begin where their group stands: the last begin at one offset, nothing behind it is committed
    SELECT min_by(b.connection_id, b.at_us) AS connection_id, min_by(b.exchange, b.at_us) AS exchange,
        min_by(b.client_id, b.at_us) AS client_id, b.client_address, b.cluster, min_by(b.broker, b.at_us) AS broker,
        b.topic, b.partition, b.position,
        max(b.software) AS software,
        count(*) AS fetches,
        count(*) AS all_fetches,
        count(CASE WHEN b.is_delivered THEN 1 END) AS with_records,
        max(b.end_of_all) AS readable_end,
        min(b.seen_at) AS first_at, max(b.seen_at) AS last_at,
        max(b.at_us) - min(b.at_us) AS us
    FROM beginnings AS b
    LEFT JOIN (
        SELECT client_address, cluster, topic, partition, max(CASE WHEN kind = 'commit' THEN partition_offset END) AS position,
            max(CASE WHEN kind = 'committed' THEN partition_offset END) AS found,
            min(CASE WHEN kind = 'committed' THEN partition_offset END) AS first_found
        FROM client_offsets WHERE kind IN ('commit', 'committed') GROUP BY client_address, cluster, topic, partition
    ) AS c ON c.client_address = b.client_address AND c.cluster = b.cluster AND c.topic = b.topic AND c.partition = b.partition
    WHERE b.position = b.last_beginning
    GROUP BY b.client_address, b.cluster, b.topic, b.partition, b.position
    HAVING count(CASE WHEN b.is_delivered THEN 1 END) >= $min_restarts AND (bool_or(b.is_restarted) OR max(c.found) = b.position)
        AND coalesce(max(c.position), 0) <= b.position AND max(b.at_us) - min(b.at_us) >= $min_seconds * 1000000
        -- started by a clock (cron), and its group never got on: it may only look; a process that is restarted drifts by its life
        AND NOT (max(c.position) IS NULL AND max(c.found) IS NOT DISTINCT FROM min(c.first_found)
            AND least(max(b.at_us % 60000000) - min(b.at_us % 60000000),
                max((b.at_us + 30000000) % 60000000) - min((b.at_us + 30000000) % 60000000)) <= 3000000)
), meanwhile AS (
    SELECT r.connection_id, r.topic, r.partition, r.position,
        count(*) AS all_fetches,
        count(CASE WHEN a.position = r.position THEN d.yes END) AS with_records,
        count(CASE WHEN a.position = r.position THEN d.is_damaged END) AS damaged,
        -- other partitions filled the answer: it has no room for a batch
        count(CASE WHEN a.position = r.position AND d.yes IS NULL
            AND e.response_size >= greatest(e.max_bytes // 2, e.max_bytes - 1048576) THEN 1 END) AS filled
    FROM repeated AS r
    JOIN asked AS a ON a.connection_id = r.connection_id AND a.topic = r.topic AND a.partition = r.partition
        AND a.exchange >= r.exchange AND a.exchange <= r.last_exchange
    JOIN exchanges AS e ON e.connection_id = a.connection_id AND e.exchange = a.exchange
    LEFT JOIN delivered AS d
        ON d.connection_id = a.connection_id AND d.exchange = a.exchange AND d.topic = a.topic AND d.partition = a.partition
    GROUP BY r.connection_id, r.topic, r.partition, r.position
), elsewhere AS ( -- another broker that refuses the partition in between
    SELECT r.connection_id, r.topic, r.partition, r.position, max(e.broker) AS broker, count(*) AS refused
    FROM repeated AS r
    JOIN client_errors AS e ON e.client_id IS NOT DISTINCT FROM r.client_id AND e.client_address = r.client_address AND e.cluster = r.cluster
        AND e.resource = r.topic AND e.partition = r.partition AND e.api_key = 1 AND e.connection_id <> r.connection_id
        AND e.seen_at BETWEEN r.first_at AND r.last_at
    GROUP BY r.connection_id, r.topic, r.partition, r.position
), ranked AS (
    SELECT r.*,
        m.all_fetches, m.with_records, m.damaged,
        row_number() OVER (
            PARTITION BY r.connection_id, r.topic, r.partition ORDER BY r.fetches DESC, r.position
        ) AS nth
    FROM repeated AS r
    JOIN meanwhile AS m ON m.connection_id = r.connection_id
        AND m.topic = r.topic AND m.partition = r.partition AND m.position = r.position
    WHERE (r.fetches - m.filled >= $min_fetches AND r.fetches * 100 >= m.all_fetches * $min_percent) OR (r.returns >= $min_returns AND EXISTS (
        FROM committed AS c
        WHERE c.client_id IS NOT DISTINCT FROM r.client_id AND c.client_address = r.client_address AND c.cluster = r.cluster
            AND c.topic = r.topic AND c.partition = r.partition AND c.position = r.position)
        AND NOT EXISTS ( -- it begins anew as it polls too late: see max_poll_exceeded
            FROM late_polls AS p
            WHERE p.client_id IS NOT DISTINCT FROM r.client_id AND p.client_address = r.client_address
                AND p.at_us BETWEEN epoch_us(r.first_at) AND epoch_us(r.last_at)))
)
SELECT r.* EXCLUDE (nth, last_exchange, returns, damaged), CASE WHEN o.refused * 2 >= r.fetches THEN o.broker END AS refused_by
FROM ranked AS r
LEFT JOIN elsewhere AS o ON o.connection_id = r.connection_id AND o.topic = r.topic AND o.partition = r.partition AND o.position = r.position
WHERE nth = 1 AND damaged * 2 <= fetches -- else see corrupt_batches
    AND NOT (with_records > 0 AND r.readable_end = r.position + 1 AND NOT EXISTS ( -- it has no group, and may look at the last record each time
        FROM client_exchanges AS g
        WHERE g.client_id IS NOT DISTINCT FROM r.client_id AND g.client_address = r.client_address AND g.cluster = r.cluster
            AND len(g.groups) > 0))
UNION ALL BY NAME
SELECT *
FROM reconnecting
UNION ALL BY NAME
SELECT *
FROM restarting
