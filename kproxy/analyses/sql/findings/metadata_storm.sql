/*
id: metadata_storm
title: Clients that ask for metadata, or where partitions end, again and again
severity: notice
meaning: >
  A client needs metadata when it starts, every five minutes, and after a change of leaders. A client that requests it all the
  time lists every topic by mistake, or refreshes what it knows far too often. One that asks where a partition ends (ListOffsets)
  before each record that it reads waits for that answer each time, and falls behind for it. A burst in few seconds, as after a topic was made
  again, is not listed, nor is a client that asks because of what other findings say: errors (a quarter as many answers with one),
  a broker that is away, addresses that it does not reach, a connection for nearly each request.
basis:
  rests_on: Metadata or ListOffsets requests of a client in its busiest minute
  certainty: measured
  wrong_if: many processes have the same client id and address
columns:
  asks_for: metadata (Metadata), or ends of partitions (ListOffsets)
  requests: such requests that were answered
  requests_in_busiest_minute: such requests in the minute with the most
  partitions: whose ends it asked for in that minute; empty for metadata
  without_topics: "requests that name no topic: for all topics, or for none"
  connections: ""
  response_bytes: bytes of their answers
action: >
  Leave metadata.max.age.ms (topic.metadata.refresh.interval.ms) at its default of five minutes, and name the topics that are asked for.
  Ask where partitions end once in a while, not for each record: answers to fetches tell it, too (cached watermarks, currentLag).
reference: https://kafka.apache.org/documentation/#producerconfigs_metadata.max.age.ms
parameters:
  min_requests_per_minute: {default: 120, meaning: "Fewer such requests of one client, in its busiest minute, are not listed; nor fewer for each partition."}
  min_seconds: {default: 5, meaning: "A minute with requests in fewer of its seconds does not count."}
verdict: "{count client_id:client asks/clients ask} again and again for metadata, or where partitions end. {most requests_in_busiest_minute}: {client_id} at {client_address} asked for {asks_for} {requests_in_busiest_minute:,} times in one minute on {connections:connection/connections}. [{partitions:?}Ask once in a while: answers to fetches tell where partitions end, too|Leave metadata.max.age.ms at its default, and list topics rarely]."
order: 42
only_if: FROM exchanges WHERE api_key IN (2, 3) HAVING count(*) >= $min_requests_per_minute
frame:
  group_by: [client_id, client_address, asks_for]
  values:
    requests_in_busiest_minute: max(requests_in_minute)
    partitions: max(asked_partitions)
    without_topics: count(CASE WHEN coalesce(len(topics), 0) = 0 THEN 1 END)
    response_bytes: CAST(sum(response_size) AS BIGINT)
  having: requests_in_busiest_minute >= $min_requests_per_minute * coalesce(partitions, 1)
  order_by: requests_in_busiest_minute DESC, requests DESC
*/
WITH parts AS (
    SELECT client_id, client_address, api_key, at_us // 10000000 AS part, count(*) AS requests, count(DISTINCT at_us // 1000000) AS seconds
    FROM client_exchanges AS e
    WHERE api_key IN (2, 3) AND unanswered IS NULL AND NOT EXISTS ( -- for minutes they ask who leads now: broker_away says so
        SELECT 1 FROM broker_absences AS b
        WHERE b.cluster = e.cluster AND e.at_us BETWEEN b.went_us AND least(coalesce(b.back_us, b.until_us), b.went_us + 600000000))
    GROUP BY client_id, client_address, api_key, at_us // 10000000
), minutes AS (
    -- any minute, not one of the clock's: a storm of 40 s would often be two halves of those
    SELECT client_id, client_address, api_key, part,
        CASE WHEN sum(seconds) OVER a_minute >= $min_seconds THEN CAST(sum(requests) OVER a_minute AS BIGINT) ELSE 0 END AS requests_in_minute
    FROM parts
    WINDOW a_minute AS (PARTITION BY client_id, client_address, api_key ORDER BY part RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING)
), asked AS (
    SELECT client_id, client_address, api_key, count(*) AS requests, count(DISTINCT connection_id) AS connections
    FROM client_exchanges
    WHERE api_key IN (2, 3) AND unanswered IS NULL
    GROUP BY client_id, client_address, api_key
), refused AS (
    SELECT client_id, client_address, count(*) AS answers
    FROM client_exchanges
    WHERE len(error_codes) > 0 AND api_key <> 18
    GROUP BY client_id, client_address
), of_their_own AS ( -- clients that nothing else makes ask
    SELECT a.client_id, a.client_address, a.api_key
    FROM asked AS a
    LEFT JOIN refused AS r ON r.client_id IS NOT DISTINCT FROM a.client_id AND r.client_address = a.client_address
    WHERE a.requests >= 2 * a.connections AND coalesce(r.answers, 0) * 4 < a.requests
        AND NOT EXISTS (
            FROM failed_attempts AS t WHERE t.client_address = a.client_address AND (t.client_id IS NULL OR t.client_id = a.client_id))
        AND NOT EXISTS ( -- see unreachable_brokers
            FROM unreachable_lookups AS u
            WHERE u.client_id IS NOT DISTINCT FROM a.client_id AND u.client_address = a.client_address AND u.in_half_minute >= 8)
), busiest AS (
    SELECT *
    FROM minutes
    WHERE api_key = 2
    QUALIFY row_number() OVER (PARTITION BY client_id, client_address ORDER BY requests_in_minute DESC, part) = 1
), named AS (
    SELECT DISTINCT b.client_id, b.client_address, o.topic, o.partition
    FROM busiest AS b
    JOIN client_offsets AS o ON o.client_id IS NOT DISTINCT FROM b.client_id AND o.client_address = b.client_address
    WHERE o.kind = 'list' AND o.at_us // 10000000 BETWEEN b.part AND b.part + 5
), ends AS (
    SELECT client_id, client_address, count(*) AS asked_partitions
    FROM named
    GROUP BY client_id, client_address
)
SELECT e.*, m.requests_in_minute, n.asked_partitions, CASE e.api_key WHEN 2 THEN 'ends of partitions' ELSE 'metadata' END AS asks_for
FROM client_exchanges AS e
JOIN minutes AS m ON m.client_id IS NOT DISTINCT FROM e.client_id AND m.client_address = e.client_address AND m.api_key = e.api_key
    AND m.part = e.at_us // 10000000
JOIN of_their_own AS o ON o.client_id IS NOT DISTINCT FROM e.client_id AND o.client_address = e.client_address AND o.api_key = e.api_key
LEFT JOIN ends AS n ON e.api_key = 2 AND n.client_id IS NOT DISTINCT FROM e.client_id AND n.client_address = e.client_address
WHERE e.unanswered IS NULL AND (e.api_key = 3 OR n.asked_partitions IS NOT NULL)
