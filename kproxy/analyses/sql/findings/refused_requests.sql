/*
id: refused_requests
title: Requests that the broker refuses, and does not take when they are sent again
severity: critical
meaning: >
  The broker answered with an error that sending the same again does not mend: the record, the codec, the session timeout, the size of the
  group, or another setting is not what the broker takes, or its disk is gone. Or it answered with an error that passes by itself, but for
  least_seconds and without any success, or until the program gave up. Libraries give up at such an error, or try for ever;
  records that a Produce request had are lost unless the application handles the error. Errors that another finding explains are left out,
  and so are those that say that nothing had to be done, as TOPIC_ALREADY_EXISTS.
basis:
  rests_on: errors in answers, and what the client was answered without an error afterwards
  certainty: said
  wrong_if: the program expects the error, or went on over a connection that was not captured
columns:
  severity: "critical: records lost; notice: the same was answered without an error afterwards, or only asked for a description; else warning"
  resource: topic, group or transactional id; none
  error_name: ""
  message: what the broker says of it
  errors: answers with this error
  seconds: ""
  lost: records that were never acknowledged
  advice: what to do
action: Do what the row says. Where it names nothing, look up the error and read the log of the client.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers of a client for a resource are not listed."}
  min_metadata_errors: {default: 3, meaning: "Fewer answers to Metadata, which tools also ask with names that people typed, are not listed."}
  least_repeats: {default: 5, meaning: "Fewer answers with an error that passes by itself are not listed."}
  least_seconds: {default: 20, meaning: "Such an error that was over within this time is not listed either."}
sampled: Answers without an error afterwards may be among the exchanges that are missing.
verdict: "{count client_id:client/clients} had requests refused[{rows where severity=warning:?}, and not taken afterwards|]. {most errors}: {client_id} at {client_address}, {api_name}[ for {resource}], {errors:time/times} {error_name}[ in {seconds:,} s][{rows where severity=critical:?}; {sum lost:record/records} never acknowledged in all|]. To mend it: {advice:200}."
order: 12
only_if: FROM errors WHERE error_code NOT IN (14, 15, 16, 29, 30, 31, 36, 47, 48, 53, 55, 65, 79, 84, 85, 90)
frame:
  group_by: [client_id, client_address, cluster, api_name, refused_for AS resource, error_name]
  pause: pause_seconds
  values:
    message: max(message)
    advice: max(advice)
    is_answered: bool_and(coalesce(last_worked_us > at_us, false))
    is_question: max(is_question)
    enough: CASE WHEN max(api_key) = 3 THEN $min_metadata_errors ELSE $min_errors END
  derived:
    severity: CASE WHEN lost > 0 THEN 'critical' WHEN is_answered OR is_question THEN 'notice' ELSE 'warning' END
  having: errors >= enough
  order_by: severity = 'critical' DESC, severity = 'warning' DESC, errors DESC
*/
WITH named AS ( -- each error with what the request was about
    SELECT r.*, CASE WHEN r.api_key IN (0, 1) THEN r.partition END AS of_partition,
        coalesce(
            CASE WHEN r.resource_type IN ('topic', 'group', 'transactional_id') AND r.api_key NOT IN (29, 30, 31) THEN r.resource END,
            e.group_id, e.transactional_id, 'none')
            AS refused_for,
        r.api_key IN (15, 16, 29, 32, 35, 46, 48, 50, 55, 60, 61, 65, 66, 69, 74, 75, 77, 89, 90) AS is_question,
        r.api_key IN (19, 21, 22, 30, 31, 33, 34, 37, 38, 39, 40, 43, 44, 45, 49, 51, 57, 64, 80, 81, 91, 92) AS is_change
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
), refused AS (
    SELECT *,
        CASE
            WHEN error_code IN (56, 80, 83) OR (error_code = 2 AND api_key IN (1, 78)) THEN true -- sent again without success
            WHEN api_key IN (4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 63, 67, 73, 82, 83, 84, 85, 86, 87) THEN false -- brokers try again
            -- what a client mends by itself: it joins again, heartbeats, begins anew
            WHEN error_code IN (8, 22, 25, 27, 45, 46, 52, 59, 77, 79, 109, 110, 113, 121, 129) THEN false
            ELSE NOT EXISTS (FROM error_codes AS c WHERE c.code = error_code AND c.retriable)
        END AS is_final
    FROM named
    WHERE error_code NOT IN (14, 15, 16) -- coordinator_errors
        AND error_code NOT IN (29, 30, 31, 53, 65) -- unauthorized_access
        AND error_code NOT IN (47, 48, 90) -- producer_fenced
        AND error_code NOT IN (82, 111) -- static_member_flapping
        AND error_code NOT IN (36, 55, 84, 85) -- it is so already, or not begun because of another error
        AND NOT (error_code IN (3, 100) AND resource_type = 'topic' AND NOT is_change) -- unknown_topic_loop
        AND NOT (error_code = 5 AND partition IS NOT NULL) -- no_leader
        AND NOT (api_key IN (0, 1, 2) AND error_code IN (6, 74)) -- stale_leader
        AND NOT (api_key = 0 AND error_code IN (2, 10, 18, 19, 20, 45, 46, 59)) -- of batches: they have findings of their own
        AND NOT (api_key = 1 AND error_code = 1) -- offset_out_of_range_loop
        AND NOT (api_key = 11 AND error_code = 23) AND error_code <> 112 -- assignor_mismatch
        AND NOT (api_key IN (8, 28) AND error_code IN (22, 25, 110)) -- refused_commits
        AND NOT (api_key IN (12, 14, 68, 76, 88) AND error_code IN (25, 110)) -- session_expired
        AND NOT (api_key = 12 AND error_code = 27) -- rebalances
        AND NOT (api_key = 14 AND error_code = 27 AND EXISTS ( -- long_rebalance
            FROM awaited_members AS m WHERE m.waited_for = 'assign partitions' AND m.group_id = named.refused_for AND m.cluster = named.cluster))
        AND NOT (api_key IN (17, 36) AND error_code IN (33, 58)) -- authentication_failed
        AND NOT (error_code = 34 AND NOT EXISTS ( -- reconnect_loop
            FROM exchanges AS n WHERE n.connection_id = named.connection_id AND n.exchange > named.exchange))
        AND NOT (is_question AND error_code IN (54, 69, 91, 105)) -- there is nothing to describe
        AND api_key NOT IN (18, 71, 72)
), sought AS (
    SELECT DISTINCT client_id, client_address, cluster, api_key, refused_for, of_partition FROM refused
), answered AS (
    SELECT client_id, client_address, cluster, api_key, connection_id, exchange, at_us, NULL AS of_partition,
        unnest(list_concat(list_concat(topics, groups), [coalesce(transactional_id, 'none'), 'none'])) AS refused_for
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND api_key IN (SELECT api_key FROM sought)
    UNION ALL
    SELECT client_id, client_address, cluster, 1, connection_id, exchange, at_us, partition, topic
    FROM client_offsets
    WHERE kind = 'fetch' AND error_code = 0
    UNION ALL
    SELECT client_id, client_address, cluster, 0, connection_id, exchange, at_us, partition, topic
    FROM client_batches
    WHERE direction = 'produce' AND error_code = 0
), worked AS (
    SELECT a.*
    FROM answered AS a
    JOIN sought AS s ON s.client_id IS NOT DISTINCT FROM a.client_id AND s.client_address = a.client_address
        AND s.cluster IS NOT DISTINCT FROM a.cluster AND s.api_key = a.api_key AND s.refused_for = a.refused_for
        AND s.of_partition IS NOT DISTINCT FROM a.of_partition
    LEFT JOIN named AS n ON n.connection_id = a.connection_id AND n.exchange = a.exchange
        AND (n.refused_for = a.refused_for OR a.refused_for = 'none') AND a.of_partition IS NULL
    WHERE n.connection_id IS NULL
), last_worked AS (
    SELECT client_id, client_address, cluster, api_key, refused_for, of_partition, max(at_us) AS last_worked_us
    FROM worked
    GROUP BY client_id, client_address, cluster, api_key, refused_for, of_partition
), gone AS ( -- programs that ended within the capture
    SELECT client_id, client_address, cluster
    FROM client_connections
    GROUP BY client_id, client_address, cluster
    HAVING count(CASE WHEN closed = 'end of capture' THEN 1 END) = 0
), runs AS ( -- errors that no success comes between
    SELECT r.*, count(*) OVER run AS repeats, max(r.at_us) OVER run - min(r.at_us) OVER run AS run_us
    FROM refused AS r
    ASOF LEFT JOIN worked AS w ON coalesce(w.client_id, '') = coalesce(r.client_id, '') AND w.client_address = r.client_address AND w.cluster = r.cluster
        AND w.api_key = r.api_key AND w.refused_for = r.refused_for AND coalesce(w.of_partition, -1) = coalesce(r.of_partition, -1)
        AND w.at_us <= r.at_us
    WINDOW run AS (
        PARTITION BY r.client_id, r.client_address, r.cluster, r.api_key, r.refused_for, r.of_partition, r.error_code, w.at_us)
)
SELECT r.*, l.last_worked_us, coalesce(b.lost, 0) AS lost,
    CASE r.error_code
        WHEN 1 THEN 'give an offset that the partition has'
        WHEN 2 THEN 'look at the disk of the broker, or let the leader move to another replica'
        WHEN 7 THEN 'find out why the broker takes so long: its disk, its load, replicas or a controller that lag'
        WHEN 12 THEN 'shorten the metadata of its commits'
        WHEN 17 THEN 'correct the name of the topic, which no topic may have'
        WHEN 21 THEN 'set its acks to 0, 1 or all'
        WHEN 24 THEN 'correct its group.id, which is empty or not allowed'
        WHEN 26 THEN 'set its session.timeout.ms to what the broker allows'
        WHEN 32 THEN 'correct its clock or the unit of its time stamps'
        WHEN 35 THEN 'change the release of the client or of the broker'
        WHEN 37 THEN 'correct the number of partitions, which is none, or not more than the topic has'
        WHEN 38 THEN 'ask for as many replicas as there are brokers at most'
        WHEN 39 THEN 'correct which brokers are to have the replicas'
        WHEN 40 THEN 'correct the settings, which the broker does not take'
        WHEN 41 THEN 'see whether the cluster has a controller: kafka-metadata-quorum.sh describe --status'
        WHEN 44 THEN 'ask for what the policy of the broker allows'
        WHEN 49 THEN 'restart it: its transactional.id expired'
        WHEN 50 THEN 'set its transaction.timeout.ms to what the broker allows'
        WHEN 51 THEN 'look for a transaction that hangs: kafka-transactions.sh'
        WHEN 56 THEN 'look at the disk of the broker, which failed or is full'
        WHEN 60 THEN 'try again when the partitions have moved'
        WHEN 68 THEN 'stop the members of the group first'
        WHEN 69 THEN 'correct the group, which is not of the kind that the request is for, or not there'
        WHEN 75 THEN 'find out why that broker is behind: whether it hears of the controller'
        WHEN 73 THEN 'set delete.topic.enable of the broker'
        WHEN 76 THEN 'change its release, or the codec, which it does not know'
        WHEN 81 THEN 'start fewer members, or raise group.max.size of the broker'
        WHEN 86 THEN 'stop the members of the group, which reads the topic, first'
        WHEN 87 THEN 'correct the records: in a compacted topic each needs a key'
        WHEN 88 THEN 'look for a transaction that hangs, with offsets of the group: kafka-transactions.sh'
        WHEN 89 THEN 'send less, or raise the quota of the client'
        ELSE CASE WHEN r.is_final OR r.error_code IN (3, 101, 102, 104) THEN coalesce(f.advice, 'look into the log of the broker')
            ELSE 'look into the log of the broker for why this goes on' END
    END AS advice
FROM runs AS r
LEFT JOIN last_worked AS l ON l.client_id IS NOT DISTINCT FROM r.client_id AND l.client_address = r.client_address
    AND l.cluster IS NOT DISTINCT FROM r.cluster AND l.api_key = r.api_key AND l.refused_for = r.refused_for
    AND l.of_partition IS NOT DISTINCT FROM r.of_partition
LEFT JOIN gone AS g ON g.client_id IS NOT DISTINCT FROM r.client_id AND g.client_address = r.client_address
    AND g.cluster IS NOT DISTINCT FROM r.cluster
LEFT JOIN refused_batches AS b ON r.api_key = 0 AND b.connection_id = r.connection_id AND b.exchange = r.exchange AND b.topic = r.resource
    AND b.partition = r.partition
LEFT JOIN error_codes AS f ON f.code = r.error_code
WHERE NOT (r.error_code IN (3, 100) AND r.repeats >= 10) -- unknown_topic_loop
    AND NOT coalesce(b.lacks_replicas, false) -- not_enough_replicas
    AND (r.is_final OR (r.repeats >= $least_repeats AND r.run_us >= $least_seconds * 1000000)
    OR (b.harm = 2 AND r.error_code NOT IN (3, 5, 6, 74, 100)) -- those may have gone to another broker
    OR (r.is_change AND r.error_code <> 41 AND g.client_address IS NOT NULL AND coalesce(l.last_worked_us, 0) <= r.at_us))
