/*
id: changes
title: What was changed in the cluster, and by whom
severity: info
meaning: >
  Topics made, deleted or given more partitions, records deleted, settings, permissions, quotas, users, groups and their offsets, replicas and
  leaders: the first question where something went wrong is what was changed before.
basis:
  rests_on: requests that change something, which were answered without an error
  certainty: said
  wrong_if: the change was made over connections that were not captured, or next to Kafka
columns:
  what: kind of change
  resource: topic, group, broker, user, permission or quota that the request names
  settings: names of the settings
  changes: requests
action: Compare the times with those of the other findings.
reference: https://kafka.apache.org/documentation/#basic_ops
parameters:
  pause_seconds: {default: 600, meaning: "After so long without such a change, the next one has a row of its own."}
sampled: Changes may be among the exchanges that are missing.
verdict: "{sum changes:change/changes} by {count client_id:client/clients}: {counts what by changes:200}. {most changes}: {client_id} at {client_address}, {what}, {resource}[ ({settings})], at {first_at:time}."
order: 60
only_if: FROM exchanges WHERE api_key IN (19, 20, 21, 30, 31, 33, 37, 42, 43, 44, 45, 47, 49, 51, 57)
frame:
  group_by: [client_id, client_address, cluster, what, resource]
  pause: pause_seconds
  values:
    changes: count(*)
    settings: nullif(array_to_string(sorted_set(settings), ', '), '')
  order_by: first_at
*/
WITH done AS (
    SELECT *,
        CASE api_key
            WHEN 19 THEN 'topic created' WHEN 20 THEN 'topic deleted' WHEN 21 THEN 'records deleted'
            WHEN 30 THEN 'permission given' WHEN 31 THEN 'permission taken' WHEN 33 THEN 'all settings replaced' WHEN 44 THEN 'settings set'
            WHEN 37 THEN 'partitions added' WHEN 42 THEN 'group deleted' WHEN 43 THEN 'leaders elected' WHEN 45 THEN 'replicas moved'
            WHEN 47 THEN 'offsets deleted' WHEN 49 THEN 'quota set' WHEN 51 THEN 'user changed' ELSE 'feature changed'
        END AS what
    FROM client_exchanges
    WHERE api_key IN (19, 20, 21, 30, 31, 33, 37, 42, 43, 44, 45, 47, 49, 51, 57) AND response_at IS NOT NULL AND len(error_codes) = 0
        AND coalesce(len(changed), 1) > 0 -- else it only asks whether it might
), named AS (
    SELECT connection_id, exchange, api_key IN (33, 44) AND changed IS NOT NULL AS has_settings,
        unnest(coalesce(changed, list_concat(topics, groups))) AS text
    FROM done
)
SELECT d.*, CASE WHEN has_settings THEN regexp_extract(text, '^(?:topic |group |)(.*): ', 1) ELSE coalesce(text, 'none named') END AS resource,
    CASE WHEN has_settings THEN regexp_extract(text, '^.*: (.*)$', 1) END AS settings
FROM done AS d
LEFT JOIN named AS n ON n.connection_id = d.connection_id AND n.exchange = d.exchange
