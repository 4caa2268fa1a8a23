/*
id: group_without_commits
title: Groups that read and never commit
severity: notice
meaning: >
  Members of the group fetched records for a good while, and no commit of the group was seen. After a restart they begin where
  auto.offset.reset says: everything again, or nothing of what came meanwhile. Groups that keep their offsets elsewhere (Flink, some
  connectors) are right to do so.
basis:
  rests_on: fetches of members, and no OffsetCommit or TxnOffsetCommit of the group
  certainty: measured
  wrong_if: commits went to a coordinator that was not captured, or the application keeps its offsets elsewhere
columns:
  records: records that the client fetched
  seconds: seconds for which it fetched as a member
action: Set enable.auto.commit=true or commit in the application; where offsets are kept elsewhere on purpose, leave it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_enable.auto.commit
parameters:
  min_seconds: {default: 60, meaning: "Groups seen for less time are not listed; the default commit interval is 5 s. A third is enough if the client was started three times."}
  pause_seconds: {default: 600, meaning: "After so long without a fetch, the next one begins another episode, with a row of its own."}
  min_records: {default: 1000, meaning: "Groups whose members fetched fewer records are not listed."}
sampled: A commit of the group may be among the exchanges that are missing.
verdict: "{count group_id:group/groups} without a commit. {most records}: {client_id} at {client_address} fetched {records:,} records for {group_id} in {seconds:,} s. A restart begins anew: turn auto commit on, or commit in the application."
order: 27
only_if: >-
  FROM exchanges WHERE api_key = 1 AND EXISTS (SELECT 1 FROM group_events WHERE event IN ('join', 'sync', 'heartbeat'))
  HAVING coalesce(sum(records), 0) >= $min_records
    AND epoch_us(max(coalesce(request_at, response_at))) - epoch_us(min(coalesce(request_at, response_at))) >= $min_seconds * 1000000 / 3
frame:
  group_by: [client_id, client_address, cluster, group_id]
  pause: pause_seconds
  values: {records: CAST(sum(records) AS BIGINT), starts: max(starts)}
  having: records >= $min_records AND seconds >= CASE WHEN starts >= 3 THEN $min_seconds / 3 ELSE $min_seconds END
  order_by: records DESC
*/
WITH members AS (
    SELECT cluster, group_id, client_id, client_address, min(at_us) AS joined_us,
        count(DISTINCT CASE WHEN event = 'join' THEN connection_id END) AS starts
    FROM client_group_events
    WHERE event IN ('join', 'sync', 'heartbeat') AND group_type IN ('classic', 'consumer') AND coalesce(error_code, 0) = 0
        AND coalesce(protocol_type, 'consumer') = 'consumer'
    GROUP BY cluster, group_id, client_id, client_address
), committed AS (
    SELECT DISTINCT cluster, group_id
    FROM client_exchanges
    WHERE api_key IN (8, 28) AND group_id IS NOT NULL
)
SELECT
    f.client_id, f.client_address, f.software, f.cluster, m.group_id, m.starts, f.records, f.seen_at, f.at_us, f.connection_id, f.exchange
FROM members AS m
JOIN client_exchanges AS f ON f.client_id IS NOT DISTINCT FROM m.client_id AND f.client_address = m.client_address AND f.cluster = m.cluster
LEFT JOIN committed AS c ON c.cluster = m.cluster AND c.group_id = m.group_id
WHERE c.group_id IS NULL AND f.api_key = 1 AND coalesce(f.replica_id, -1) < 0 AND f.at_us >= m.joined_us
