/*
id: commit_storm
title: Members that commit many times a second, or each record
severity: notice
meaning: >
  A group of ordinary consumers commits every five seconds for each member. Each commit is a write to __consumer_offsets with all its
  replicas, for which a consumer that commits record by record waits; hundreds a minute from one member load the coordinator, and
  other groups feel it. Commits that repeat an offset do nothing at all.
basis:
  rests_on: OffsetCommit requests of one connection in its busiest minute, and the steps between their offsets
  certainty: measured
  wrong_if: that minute was an exception, as at a start
columns:
  commits: OffsetCommit requests that were not refused
  commits_in_busiest_minute: OffsetCommit requests in the minute with the most
  records_per_commit: offsets by which a commit that moved a partition on did so, on average; empty if none did
  repeated_percent: percent of the committed offsets that had been committed before
action: Raise auto.commit.interval.ms, or commit in the application by time and not by record, as records handled twice after a crash have to be harmless anyway; skip the commit when nothing was read.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
parameters:
  min_commits_per_minute: {default: 300, meaning: "Fewer OffsetCommit requests on one connection, in its busiest minute, are not listed."}
  min_small_commits_per_minute: {default: 120, meaning: "The same where commits move partitions on by max_records_per_commit or less."}
  max_records_per_commit: {default: 2, most: 2147483647, meaning: "Offsets that a commit moves a partition on, on average, up to which fewer commits are enough."}
sampled: Larger steps of the committed offsets may be among the exchanges that are missing.
verdict: "{rows:group member commits/group members commit} too often. {most commits_in_busiest_minute}: {client_id} in group {group_id}, {commits_in_busiest_minute:,} commits in one minute[, {records_per_commit:record/records} each][; {repeated_percent:d} % of the offsets were committed already]. Commit every few seconds."
order: 41
only_if: FROM exchanges WHERE api_key = 8 HAVING count(*) >= least($min_commits_per_minute, $min_small_commits_per_minute)
frame:
  group_by: [group_id, client_id, client_address, cluster, connection_id]
  values:
    commits_in_busiest_minute: max(commits_in_minute)
    records_per_commit: round(max(records_per_commit), 1)
    repeated_percent: coalesce(max(repeated_percent), 0)
  is_summed: true
  having: >-
    commits_in_busiest_minute >= CASE
      WHEN records_per_commit <= $max_records_per_commit THEN least($min_commits_per_minute, $min_small_commits_per_minute)
      ELSE $min_commits_per_minute END
  order_by: commits_in_busiest_minute DESC, commits DESC
*/
WITH steps AS (
    SELECT connection_id, group_id, exchange,
        partition_offset - lag(partition_offset) OVER (
            PARTITION BY connection_id, group_id, coalesce(topic, topic_id), partition ORDER BY exchange
        ) AS step
    FROM offsets
    WHERE kind = 'commit' AND partition_offset >= 0 AND coalesce(error_code, 0) = 0 -- refused ones are for refused_commits to name
), sizes AS (
    SELECT connection_id, group_id, 100 * count(CASE WHEN step = 0 THEN 1 END) // count(*) AS repeated_percent,
        sum(CASE WHEN step > 0 THEN step END) / count(DISTINCT CASE WHEN step > 0 THEN exchange END) AS records_per_commit
    FROM steps
    GROUP BY connection_id, group_id
), parts AS (
    SELECT group_id, client_id, client_address, cluster, connection_id, at_us // 10000000 AS part,
        max(software) AS software,
        count(*) AS commits,
        min(seen_at) AS first_at, max(seen_at) AS last_at,
        min(example_of(at_us, connection_id, exchange)) AS example
    FROM client_exchanges
    WHERE api_key = 8 AND len(error_codes) = 0
    GROUP BY group_id, client_id, client_address, cluster, connection_id, at_us // 10000000
), minutes AS (
    -- any minute, not one of the clock's: a storm of 40 s would often be two halves of those
    SELECT *, CAST(sum(commits) OVER (
        PARTITION BY group_id, client_id, client_address, cluster, connection_id ORDER BY part RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING
    ) AS BIGINT) AS commits_in_minute
    FROM parts
)
SELECT m.*, s.repeated_percent, s.records_per_commit
FROM minutes AS m
LEFT JOIN sizes AS s ON s.connection_id = m.connection_id AND s.group_id IS NOT DISTINCT FROM m.group_id
