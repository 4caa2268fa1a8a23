/*
id: refused_requests
title: Requests that the broker refuses and will refuse again
severity: critical
meaning: >
  The broker answered with an error that sending the same again does not mend: the record, the codec, the session timeout, the size of the
  group, or another setting is not what the broker takes, or its disk is gone. Libraries give up at such an error, or try for ever;
  records that a Produce request had are lost unless the application handles the error. Errors that another finding explains are left out.
basis:
  rests_on: errors in answers, and what the client was answered without an error afterwards
  certainty: said
  wrong_if: the program expects the error, or went on over a connection that was not captured
columns:
  severity: "critical: records lost; notice: the same was answered without an error afterwards; else warning"
  resource: topic, group or transactional id; none
  error_name: ""
  message: what the broker says of it
  errors: answers with this error
  lost: records that were never acknowledged
  change: what to change
action: Change what the row says. Where it names nothing, look up the error and read the log of the client.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers of a client for a resource are not listed."}
  min_metadata_errors: {default: 3, meaning: "Fewer answers to Metadata, which tools also ask with names that people typed, are not listed."}
sampled: Answers without an error afterwards may be among the exchanges that are missing.
verdict: "{count client_id:client has/clients have} requests refused that no retry mends. {most errors}: {client_id} at {client_address}, {api_name} for {resource}, {errors:time/times} {error_name}[{rows where severity=critical:?}; {sum lost:record/records} never acknowledged in all|]. Change {change}."
order: 12
only_if: >-
  FROM errors
  WHERE error_code IN (-1, 12, 17, 21, 24, 26, 28, 32, 35, 37, 38, 39, 40, 42, 43, 44, 49, 50, 56, 57, 60, 61, 64, 66, 68, 69, 73, 76, 81, 86, 87, 92, 93, 96, 128, 130)
    AND api_key IN (0, 1, 2, 3, 8, 9, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 28, 30, 31, 33, 34, 37, 38, 39, 40, 42, 44, 45, 47, 49, 51, 57, 68, 69, 76, 78, 79, 88)
frame:
  group_by: [client_id, client_address, cluster, api_name, refused_for AS resource, error_name]
  pause: pause_seconds
  values:
    message: max(message)
    change: max(change)
    is_answered: max(last_worked_us) > max(at_us)
    enough: CASE WHEN max(api_key) = 3 THEN $min_metadata_errors ELSE $min_errors END
  derived:
    severity: CASE WHEN lost > 0 THEN 'critical' WHEN is_answered THEN 'notice' ELSE 'warning' END
  having: errors >= enough
  order_by: severity = 'critical' DESC, severity = 'warning' DESC, errors DESC
*/
WITH refused AS (
    SELECT r.*,
        coalesce(CASE WHEN r.resource_type IN ('topic', 'group', 'transactional_id') THEN r.resource END, e.group_id, e.transactional_id, 'none')
            AS refused_for
    FROM client_errors AS r
    JOIN exchanges AS e ON e.connection_id = r.connection_id AND e.exchange = r.exchange
    WHERE r.error_code IN (-1, 12, 17, 21, 24, 26, 28, 32, 35, 37, 38, 39, 40, 42, 43, 44, 49, 50, 56, 57, 60, 61, 64, 66, 68, 69, 73, 76, 81, 86, 87, 92, 93, 96, 128, 130)
        AND r.api_key IN (0, 1, 2, 3, 8, 9, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 28, 30, 31, 33, 34, 37, 38, 39, 40, 42, 44, 45, 47, 49, 51, 57, 68, 69, 76, 78, 79, 88)
        AND NOT (r.api_key = 69 AND r.error_code = 69) -- clients ask so of each group, and then with DescribeGroups
), worked AS (
    SELECT client_id, client_address, cluster, api_key, unnest(list_append(topics, coalesce(group_id, transactional_id))) AS refused_for, at_us
    FROM client_exchanges
    WHERE response_at IS NOT NULL AND len(error_codes) = 0 AND api_key IN (SELECT api_key FROM refused)
), last_worked AS (
    SELECT client_id, client_address, cluster, api_key, refused_for, max(at_us) AS last_worked_us
    FROM worked
    GROUP BY client_id, client_address, cluster, api_key, refused_for
)
SELECT r.*, l.last_worked_us, coalesce(b.lost, 0) AS lost,
    CASE r.error_code
        WHEN 12 THEN 'the metadata of its commits, which is too long'
        WHEN 17 THEN 'the name of the topic, which no topic may have'
        WHEN 21 THEN 'its acks, to 0, 1 or all'
        WHEN 24 THEN 'its group.id, which is empty or not allowed'
        WHEN 26 THEN 'its session.timeout.ms, to what the broker allows'
        WHEN 32 THEN 'its clock or the unit of its time stamps'
        WHEN 35 THEN 'the release of the client or of the broker'
        WHEN 37 THEN 'the number of partitions, which is none, or not more than the topic has'
        WHEN 38 THEN 'the number of replicas, to as many as there are brokers at most'
        WHEN 39 THEN 'the brokers that are to have the replicas'
        WHEN 40 THEN 'the settings of the topic, which the broker does not take'
        WHEN 44 THEN 'the request, to what the policy of the broker allows'
        WHEN 49 THEN 'nothing, but restart it: its transactional.id expired'
        WHEN 50 THEN 'its transaction.timeout.ms, to what the broker allows'
        WHEN 56 THEN 'the disk of the broker, which failed or is full'
        WHEN 60 THEN 'nothing, but try again when the partitions have moved'
        WHEN 68 THEN 'the group, which is at work: stop its members first'
        WHEN 69 THEN 'the group, which is not of the kind that the request is for, or not there'
        WHEN 73 THEN 'delete.topic.enable of the broker'
        WHEN 76 THEN 'its release, or the codec, which it does not know'
        WHEN 81 THEN 'the number of members, or group.max.size of the broker'
        WHEN 86 THEN 'the group, which reads the topic: stop its members first'
        WHEN 87 THEN 'the records: in a compacted topic each needs a key'
        ELSE 'what the error names'
    END AS change
FROM refused AS r
LEFT JOIN last_worked AS l ON l.client_id IS NOT DISTINCT FROM r.client_id AND l.client_address = r.client_address
    AND l.cluster IS NOT DISTINCT FROM r.cluster AND l.api_key = r.api_key AND l.refused_for = r.refused_for
LEFT JOIN refused_batches AS b ON r.api_key = 0 AND b.connection_id = r.connection_id AND b.exchange = r.exchange AND b.topic = r.resource
    AND b.partition = r.partition
