/*
id: commit_per_record
title: Consumers that commit after every record
severity: warning
meaning: >
  Each commit is a write to __consumer_offsets with all its replicas. A consumer that commits one record at a time spends its time
  waiting for commits, and makes one topic of the cluster busier than all others.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  topic: ""
  commits: commits that moved a partition on
  records: offsets by which they moved it on
  records_per_commit: records / commits
  commits_in_busiest_minute: of those commits
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Commit once per poll() or every few seconds, not per record; records handled twice after a crash have to be harmless anyway.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
parameters:
  min_commits_per_minute: {default: 120, meaning: "Fewer commits that move a partition on, in the busiest minute, are not listed."}
  max_records_per_commit: {default: 2, most: 2147483647, meaning: "Offsets that a commit moves a partition on, on average, up to which it is listed."}
sampled: Larger steps of the committed offsets may be among the exchanges that are missing.
needs: [client_offsets]
verdict: "{count client_id:consumer commits/consumers commit} after every record. Most: {client_id} in group {group_id}, {commits:,} commits for {records:,} records of {topic}. Commit once per poll or every few seconds."
order: 40
*/
WITH commits AS (
    SELECT
        *,
        offset - lag(offset) OVER (
            PARTITION BY connection_id, group_id, topic, partition ORDER BY at_us, exchange
        ) AS step
    FROM client_offsets
    WHERE kind = 'commit' AND coalesce(error_code, 0) = 0
),
minutes AS (
    SELECT
        group_id,
        client_id,
        client_address,
        cluster,
        topic,
        at_us DIV 60000000 AS minute,
        max(software) AS software,
        count(*) AS commits,
        CAST(sum(step) AS BIGINT) AS records,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM commits
    WHERE step > 0
    GROUP BY group_id, client_id, client_address, cluster, topic, at_us DIV 60000000
),
found AS (
    SELECT
        group_id,
        client_id,
        client_address,
        cluster,
        topic,
        max(software) AS software,
        CAST(sum(commits) AS BIGINT) AS commits,
        CAST(sum(records) AS BIGINT) AS records,
        max(commits) AS commits_in_busiest_minute,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM minutes
    GROUP BY group_id, client_id, client_address, cluster, topic
)
SELECT
    client_id,
    client_address,
    software,
    group_id,
    topic,
    commits,
    records,
    round(records / commits, 1) AS records_per_commit,
    commits_in_busiest_minute,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE commits_in_busiest_minute >= :min_commits_per_minute AND records <= commits * :max_records_per_commit
ORDER BY commits DESC, group_id, client_id, client_address, topic, cluster
