/*
id: static_member_flapping
title: Static members that displace each other or come back too often
severity: warning
meaning: >
  Two processes use the same group.instance.id, so that each throws the other out (FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID), or one
  process restarts all the time. Static membership then causes the rebalances that it is meant to save.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  group_instance_id: group.instance.id
  conflicts: answers that another process has the id (FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID)
  joins: different member ids that joined with it
  addresses: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Give each process its own group.instance.id (the pod's ordinal, the host's name); find out why it restarts.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-345%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances
parameters:
  min_conflicts: {default: 1, meaning: "Answers that say that another process has the id from which an instance is listed."}
  min_joins: {default: 5, meaning: "Joins under new member ids within the period from which an instance is listed."}
  period_seconds: {default: 600, meaning: "The period of those joins."}
needs: [client_group_events]
verdict: "{rows:static member is/static members are} displaced or restarting again and again. Most: {group_instance_id} in group {group_id}, {conflicts:conflict/conflicts}, {joins:join/joins} from {addresses:address/addresses}. Give each process its own group.instance.id; if it has one, find out why it restarts."
order: 24
*/
WITH events AS (
    SELECT *
    FROM client_group_events
    WHERE group_instance_id IS NOT NULL AND group_instance_id <> ''
),
joins AS (
    SELECT
        group_key,
        group_instance_id,
        member_id,
        min(at_us) AS at_us
    FROM events
    WHERE event = 'join' AND coalesce(error_code, 0) = 0 AND coalesce(member_id, '') <> ''
    GROUP BY group_key, group_instance_id, member_id
),
nth_joins AS (
    SELECT *, row_number() OVER (PARTITION BY group_key, group_instance_id ORDER BY at_us, member_id) AS nth
    FROM joins
),
bursts AS (
    SELECT DISTINCT a.group_key, a.group_instance_id, 1 AS yes
    FROM nth_joins AS a
    JOIN nth_joins AS b
        ON b.group_key = a.group_key AND b.group_instance_id = a.group_instance_id AND b.nth = a.nth + :min_joins - 1
    WHERE b.at_us - a.at_us <= :period_seconds * 1000000
),
found AS (
    SELECT
        group_key,
        min(cluster) AS cluster,
        min(group_id) AS group_id,
        group_instance_id,
        min(client_id) AS client_id,
        min(client_address) AS client_address,
        max(software) AS software,
        count(CASE WHEN error_code IN (82, 111) THEN 1 END) AS conflicts,
        count(DISTINCT client_address) AS addresses,
        count(DISTINCT CASE WHEN event = 'join' AND coalesce(error_code, 0) = 0 THEN nullif(member_id, '') END) AS joins,
        min(at) AS first_at,
        max(at) AS last_at,
        min(CASE WHEN error_code IN (82, 111) THEN struct(at_us, connection_id, exchange) END) AS conflict,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM events
    GROUP BY group_key, group_instance_id
)
SELECT
    f.client_id,
    f.client_address,
    f.software,
    f.group_id,
    f.group_instance_id,
    f.conflicts,
    f.joins,
    f.addresses,
    f.cluster,
    f.first_at,
    f.last_at,
    coalesce(f.conflict, f.example).connection_id AS connection_id,
    coalesce(f.conflict, f.example).exchange AS exchange
FROM found AS f
LEFT JOIN bursts AS b ON b.group_key = f.group_key AND b.group_instance_id = f.group_instance_id
WHERE f.conflicts >= :min_conflicts OR b.yes = 1
ORDER BY conflicts DESC, joins DESC, f.group_key, group_instance_id
