/*
id: commit_per_record
title: Consumers that commit after every record
severity: notice
meaning: >
  Each commit is a write to __consumer_offsets with all its replicas. A consumer that commits one record at a time spends its time
  waiting for commits, and makes one topic of the cluster busier than all others.
basis:
  rests_on: commits next to the steps between their offsets
  certainty: measured
  wrong_if: the topic gets hardly a record per poll
columns:
  commits: commits that moved a partition on, each once however many partitions it moved
  records: offsets by which these commits moved partitions on
  records_per_commit: records / commits
  commits_in_busiest_minute: such commits in the minute with the most
action: Commit once per poll() or every few seconds, not per record; records handled twice after a crash have to be harmless anyway.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
parameters:
  min_commits_per_minute: {default: 120, meaning: "Fewer commits that move a partition on, in the busiest minute, are not listed."}
  max_records_per_commit: {default: 2, most: 2147483647, meaning: "Offsets that a commit moves a partition on, on average, up to which it is listed."}
sampled: Larger steps of the committed offsets may be among the exchanges that are missing.
verdict: "{count client_id:consumer commits/consumers commit} after every record or two. {most commits}: {client_id} in group {group_id}, {commits:,} commits for {records:,} records of {topic}. Commit every few seconds."
order: 40
only_if: FROM offsets WHERE kind = 'commit' HAVING count(*) >= $min_commits_per_minute
frame:
  group_by: [group_id, client_id, client_address, cluster, topic]
  values:
    commits_in_busiest_minute: max(commits)
  derived:
    records_per_commit: round(records / commits, 1)
  having: commits_in_busiest_minute >= $min_commits_per_minute AND records <= commits * $max_records_per_commit
  order_by: commits DESC
  is_summed: true
*/
WITH commits AS (
    SELECT o.*,
        partition_offset - lag(partition_offset) OVER (
            PARTITION BY o.connection_id, o.group_id, o.topic, o.partition ORDER BY at_us, o.exchange
        ) AS step
    FROM client_offsets AS o
    JOIN exchanges AS e ON e.connection_id = o.connection_id AND e.exchange = o.exchange
    WHERE e.api_key = 8 -- those of transactions are for small_transactions to judge
        AND kind = 'commit' AND coalesce(o.error_code, 0) = 0
), moves AS ( -- a commit of many partitions is one
    SELECT group_id, client_id, client_address, cluster, topic, connection_id, exchange, at_us, seen_at,
        max(software) AS software, sum(step) AS step
    FROM commits
    WHERE step > 0
    GROUP BY group_id, client_id, client_address, cluster, topic, connection_id, exchange, at_us, seen_at
)
SELECT group_id, client_id, client_address, cluster, topic,
    at_us // 60000000 AS minute,
    max(software) AS software,
    count(*) AS commits,
    CAST(sum(step) AS BIGINT) AS records,
    min(seen_at) AS first_at, max(seen_at) AS last_at,
    min(example_of(at_us, connection_id, exchange)) AS example
FROM moves
GROUP BY group_id, client_id, client_address, cluster, topic, at_us // 60000000
