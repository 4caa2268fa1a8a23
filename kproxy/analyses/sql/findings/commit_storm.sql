/*
id: commit_storm
title: Members that commit many times a second
severity: notice
meaning: >
  A group of ordinary consumers commits every five seconds for each member. Hundreds of commits a minute from one member load the
  coordinator and its log; other groups on that broker feel it. Commits that repeat an offset do nothing at all.
basis:
  rests_on: OffsetCommit requests of one connection in its busiest minute
  certainty: measured
  wrong_if: that minute was an exception, as at a start
columns:
  commits: OffsetCommit requests that were not refused
  commits_in_busiest_minute: OffsetCommit requests in the minute with the most
  repeated_percent: percent of the committed offsets that had been committed before
action: Raise auto.commit.interval.ms, or commit in the application by time and not by record; skip the commit when nothing was read.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
parameters:
  min_commits_per_minute: {default: 300, meaning: "Fewer OffsetCommit requests on one connection, in its busiest minute, are not listed."}
verdict: "{rows:group member commits/group members commit} many times a second. {most commits_in_busiest_minute}: {client_id} in group {group_id}, {commits_in_busiest_minute:,} commits in one minute; {repeated_percent:d} % of the offsets were committed already. Commit every few seconds."
order: 41
only_if: FROM exchanges WHERE api_key = 8 HAVING count(*) >= $min_commits_per_minute
frame:
  group_by: [group_id, client_id, client_address, cluster, connection_id]
  values:
    commits_in_busiest_minute: max(commits_in_minute)
    repeated_percent: coalesce(max(repeated_percent), 0)
  is_summed: true
  having: commits_in_busiest_minute >= $min_commits_per_minute
  order_by: commits_in_busiest_minute DESC, commits DESC
*/
WITH steps AS (
    SELECT connection_id, group_id, partition_offset,
        lag(partition_offset) OVER (
            PARTITION BY connection_id, group_id, coalesce(topic, topic_id), partition ORDER BY exchange
        ) AS before
    FROM offsets
    WHERE kind = 'commit'
), repeats AS (
    SELECT connection_id, group_id, 100 * count(CASE WHEN partition_offset = before THEN 1 END) // count(*) AS repeated_percent
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
SELECT m.*, r.repeated_percent
FROM minutes AS m
LEFT JOIN repeats AS r ON r.connection_id = m.connection_id AND r.group_id IS NOT DISTINCT FROM m.group_id
