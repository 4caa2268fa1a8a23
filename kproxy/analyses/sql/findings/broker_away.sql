/*
id: broker_away
title: Brokers that went away, and how long their clients needed
severity: warning
meaning: >
  Within three seconds a broker closed all connections on which clients were at work (if that was only one, it also refused others
  then), or left requests that it answers at once without an answer on several connections; then it answered nobody for a while.
  For each client: how long it took until all that it did there (produce to and fetch from these partitions, take part in these
  groups) worked again, elsewhere or there.
basis:
  rests_on: two connections at least, attempts to connect included, and three seconds of the capture after them
  certainty: inferred
  wrong_if: the broker answered somebody over a path that was not captured, or only one client was captured and its network was cut
columns:
  severity: "info: all clients worked again within harm_seconds; warning: one did not"
  how: closed its connections, or stopped answering
  went_at: the first connection that it closed, or its last answer (UTC)
  back_at: its first answer after that (UTC); none in this capture
  needed_ms: milliseconds until all of that worked again for the client; what was not done again, or no later than usual, does not count
  stopped: what the client did there and never again (produce, fetch, group), although it went on elsewhere, or its host tried to connect for ten seconds; none
  named_seconds: how long other brokers still named it as one of the cluster, where that is longer than session_seconds
  brokers_in_turn: "brokers of the cluster that went one after the other, all but the last back again: from 2 on a rolling restart"
action: If nobody restarted it, look at the broker's log and host at that time; look at delivery.timeout.ms and session.timeout.ms of clients that needed long.
reference: https://kafka.apache.org/documentation/#basic_ops_restarting
parameters:
  min_seconds: {default: 3, least: 3, meaning: "Brokers that answered again within this time are not listed."}
  harm_seconds: {default: 5, meaning: "Clients that needed less are an information, not a warning."}
  session_seconds: {default: 40, meaning: "Other brokers name it no longer than this, unless it runs or nothing is there to take it out."}
verdict: "[{rows where severity=warning:?}{broker} {how} at {went_at}: {client_id} at {client_address} [{needed_ms:?}worked again after {needed_ms:ms}[, but never did this again: {stopped}]|never did this again: {stopped}]. {count broker:broker/brokers}[{rows where brokers_in_turn=1:?}| in turn] and {count client_id:client/clients} in all[{max named_seconds:?}. Other brokers named it for {max named_seconds:,} s: it runs, or no controller (before Kafka 4: ZooKeeper) takes it out]. Look at the broker's log|{count broker:broker/brokers} went away[{back_at:?} for a while] without harm[{rows where brokers_in_turn=1:?}| ({max brokers_in_turn} in turn, as in a rolling restart)]. [{needed_ms:?}Last to work again: {client_id} at {client_address}, {needed_ms:ms} after {broker} {how}|Clients did their work as usual after {broker} {how}]]."
order: 11
only_if: >-
  FROM (
    SELECT connection_id FROM connections WHERE closed_by = 'broker'
    UNION ALL
    SELECT connection_id FROM exchanges
    WHERE expects_response AND epoch_us(request_at) + 1000 * coalesce(max_wait_ms, 0)::BIGINT + $min_seconds * 1000000 <= coalesce(
      epoch_us(response_at), (SELECT max(epoch_us(last_seen_at)) FROM connections))
  ) HAVING count(DISTINCT connection_id) > 1
frame:
  group_by: [client_id, client_address, cluster, broker, how, went_us]
  values:
    needed_ms: max(again_us - went_us) // 1000
    stopped: coalesce(nullif(array_to_string(sorted_set(CASE WHEN again_us IS NULL AND goes_on THEN kind END), ', '), ''), 'none')
    brokers_in_turn: max(brokers_in_turn)
    named_seconds: CASE WHEN max(named_seconds) >= $session_seconds THEN max(named_seconds) END
    example: coalesce(min(example_again), max(example))
    went_at: make_timestamptz(min(went_us))
    back_at: make_timestamptz(min(back_us))
    first_at: make_timestamptz(min(went_us))
    last_at: make_timestamptz(max(coalesce(again_us, went_us)))
  derived:
    severity: CASE WHEN stopped <> 'none' OR needed_ms >= $harm_seconds * 1000 THEN 'warning' ELSE 'info' END
  is_summed: true
  order_by: severity DESC, stopped <> 'none' DESC, needed_ms DESC NULLS LAST
*/
WITH done AS ( -- what clients do at brokers: at_us is when it was answered without an error
    SELECT client_id, client_address, cluster, node AS broker, connection_id, exchange, software, 'produce' AS kind, topic AS name, partition, at_us
    FROM client_batches
    WHERE direction = 'produce' AND error_code = 0 AND acks <> 0
    UNION ALL
    SELECT client_id, client_address, cluster, node, connection_id, exchange, software, 'fetch', topic, partition, at_us
    FROM client_offsets
    WHERE kind = 'fetch' AND error_code = 0 AND replica_id < 0
    UNION ALL
    SELECT client_id, client_address, cluster, node, connection_id, exchange, software, 'group', group_id, -1, epoch_us(response_at)
    FROM client_exchanges
    WHERE api_key IN (8, 12, 14, 68) AND response_at IS NOT NULL AND len(error_codes) = 0
), away AS (
    SELECT * FROM broker_absences WHERE coalesce(back_us, until_us) - last_us >= $min_seconds * 1000000
), turns AS ( -- each came back, or was the last
    SELECT a.cluster, a.broker, a.went_us,
        count(DISTINCT CASE WHEN b.back_us IS NOT NULL OR b.is_last THEN b.broker END) AS brokers_in_turn
    FROM away AS a
    JOIN (SELECT *, went_us = max(went_us) OVER (PARTITION BY cluster, how) AS is_last FROM away) AS b
        ON b.cluster = a.cluster AND b.how = a.how AND abs(b.went_us - a.went_us) <= 1800000000
    GROUP BY a.cluster, a.broker, a.went_us
), waiting AS ( -- what it waits for an answer to
    SELECT connection_id, topic, partition, max(at_us) AS at_us
    FROM client_batches
    WHERE direction = 'produce' AND error_code IS NULL AND acks <> 0
    GROUP BY connection_id, topic, partition
), used AS (
    SELECT a.cluster, a.broker, a.how, a.went_us, a.last_us, a.back_us, d.client_id, d.client_address, d.kind, d.name, d.partition,
        max(d.software) AS software,
        max(struct_pack(at_us := d.at_us, connection_id := d.connection_id, exchange := CAST(NULL AS BIGINT))) AS example
    FROM away AS a
    JOIN done AS d ON d.cluster = a.cluster AND d.broker = a.broker AND d.at_us BETWEEN a.went_us - 30000000 AND a.last_us
    JOIN connections AS c ON c.connection_id = d.connection_id
    LEFT JOIN waiting AS w ON d.kind = 'produce' AND w.connection_id = d.connection_id AND w.topic = d.name AND w.partition = d.partition
    WHERE (c.closed_at IS NULL OR epoch_us(c.closed_at) >= a.went_us) -- else the client itself had ended that work
        AND (d.kind <> 'produce' OR greatest(d.at_us, coalesce(w.at_us, 0)) >= a.went_us - 5000000) -- nor is it known to write to that partition soon
    GROUP BY a.cluster, a.broker, a.how, a.went_us, a.last_us, a.back_us, d.client_id, d.client_address, d.kind, d.name, d.partition
), again AS (
    SELECT u.cluster, u.broker, u.how, u.went_us, u.client_id, u.client_address, u.kind, u.name, u.partition, min(d.at_us) AS again_us,
        min(struct_pack(at_us := d.at_us, connection_id := d.connection_id, exchange := d.exchange)) AS example
    FROM used AS u
    JOIN done AS d ON d.cluster = u.cluster AND d.client_id IS NOT DISTINCT FROM u.client_id AND d.client_address = u.client_address
        AND d.kind = u.kind AND d.name = u.name AND d.partition = u.partition
        AND d.at_us > CASE WHEN d.broker = u.broker THEN u.last_us ELSE u.went_us END
    GROUP BY u.cluster, u.broker, u.how, u.went_us, u.client_id, u.client_address, u.kind, u.name, u.partition
), pauses AS ( -- how long a client leaves a partition out of those that it writes to in turn, in these ten minutes
    SELECT w.broker, w.went_us, d.cluster, d.client_id, d.client_address, d.name, max(d.at_us - d.before_us) AS usual_us
    FROM (
        SELECT *, lag(at_us) OVER (PARTITION BY cluster, client_id, client_address, name, partition ORDER BY at_us) AS before_us
        FROM done
        WHERE kind = 'produce'
    ) AS d
    JOIN away AS w ON w.cluster = d.cluster AND d.at_us BETWEEN w.went_us - 600000000 AND w.went_us + 600000000
    LEFT JOIN away AS a ON a.cluster = d.cluster AND a.went_us BETWEEN d.before_us AND d.at_us
    WHERE a.cluster IS NULL
    GROUP BY w.broker, w.went_us, d.cluster, d.client_id, d.client_address, d.name
    HAVING count(d.before_us) >= 3
), lasting AS ( -- clients that went on for ten seconds
    SELECT cluster, client_id, client_address, max(at_us) AS at_us FROM done GROUP BY cluster, client_id, client_address
), writing AS ( -- topics to which a client went on to write: which partitions it takes is up to it, if records have no keys
    SELECT cluster, client_id, client_address, name, max(at_us) AS at_us
    FROM done
    WHERE kind = 'produce'
    GROUP BY cluster, client_id, client_address, name
), leaderless AS ( -- but nobody can write to one without a leader
    SELECT cluster, resource AS name, partition, max(at_us) AS at_us
    FROM client_errors
    WHERE resource_type = 'topic' AND error_code = 5
    GROUP BY cluster, resource, partition
), trying AS ( -- or tried for as long to connect to it
    SELECT cluster, client_address, node AS broker, max(closed_us) AS at_us
    FROM client_connections
    WHERE not_kafka = 'refused'
    GROUP BY cluster, client_address, node
), named AS ( -- until when other brokers named it
    SELECT a.cluster, a.broker, a.went_us, max(e.at_us) - a.went_us AS for_us
    FROM away AS a
    JOIN (SELECT DISTINCT cluster, node, broker FROM client_connections) AS n ON n.cluster = a.cluster AND n.node = a.broker
    JOIN (
        SELECT cluster, node, epoch_us(response_at) AS at_us, split_part(unnest(advertised), ' ', 2) AS address
        FROM client_exchanges
        WHERE response_at IS NOT NULL
    ) AS e ON e.cluster = a.cluster AND e.address = n.broker AND e.node <> a.broker
        AND e.at_us BETWEEN a.went_us AND coalesce(a.back_us, a.until_us)
    GROUP BY a.cluster, a.broker, a.went_us
)
SELECT u.cluster, u.broker, u.how, u.went_us, u.back_us, u.client_id, u.client_address, u.software, u.kind, u.example,
    CASE WHEN p.usual_us IS NULL OR a.again_us - u.example.at_us > p.usual_us THEN a.again_us END AS again_us, a.example AS example_again,
    t.brokers_in_turn,
    n.for_us // 1000000 AS named_seconds, greatest(l.at_us, coalesce(y.at_us, 0)) - u.went_us >= 10000000
        AND (coalesce(x.at_us, 0) - u.went_us < 10000000 OR coalesce(s.at_us, 0) - u.went_us >= 10000000)
        AND max(a.again_us) OVER (PARTITION BY u.cluster, u.broker, u.went_us, u.client_id, u.client_address, u.kind) IS NULL AS goes_on
FROM used AS u
JOIN turns AS t ON t.cluster = u.cluster AND t.broker = u.broker AND t.went_us = u.went_us
JOIN lasting AS l ON l.cluster = u.cluster AND l.client_id IS NOT DISTINCT FROM u.client_id AND l.client_address = u.client_address
LEFT JOIN writing AS x ON u.kind = 'produce' AND x.cluster = u.cluster AND x.client_id IS NOT DISTINCT FROM u.client_id
    AND x.client_address = u.client_address AND x.name = u.name
LEFT JOIN leaderless AS s ON u.kind = 'produce' AND s.cluster = u.cluster AND s.name = u.name AND s.partition = u.partition
LEFT JOIN trying AS y ON y.cluster = u.cluster AND y.client_address = u.client_address AND y.broker = u.broker
LEFT JOIN named AS n ON n.cluster = u.cluster AND n.broker = u.broker AND n.went_us = u.went_us
LEFT JOIN again AS a ON a.cluster = u.cluster AND a.broker = u.broker AND a.how = u.how AND a.went_us = u.went_us
    AND a.client_id IS NOT DISTINCT FROM u.client_id AND a.client_address = u.client_address
    AND a.kind = u.kind AND a.name = u.name AND a.partition = u.partition
LEFT JOIN pauses AS p ON u.kind = 'produce' AND p.cluster = u.cluster AND p.broker = u.broker AND p.went_us = u.went_us
    AND p.client_id IS NOT DISTINCT FROM u.client_id AND p.client_address = u.client_address AND p.name = u.name
