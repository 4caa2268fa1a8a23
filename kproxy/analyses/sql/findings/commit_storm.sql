/*
id: commit_storm
title: Members that commit many times a second
severity: warning
meaning: >
  A group of ordinary consumers commits every five seconds for each member. Hundreds of commits a minute from one member load the
  coordinator and its log; other groups on that broker feel it. Commits that repeat an offset do nothing at all.
columns:
  client_id: ""
  client_address: ""
  software: ""
  group_id: ""
  commits: OffsetCommit requests
  commits_in_busiest_minute: of those requests
  repeated_percent: percent of the committed offsets that had been committed before
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Raise auto.commit.interval.ms, or commit in the application by time and not by record; skip the commit when nothing was read.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.commit.interval.ms
parameters:
  min_commits_per_minute: {default: 300, meaning: "Fewer OffsetCommit requests on one connection, in its busiest minute, are not listed."}
needs: [client_exchanges, offsets]
verdict: "{rows:group member commits/group members commit} many times a second. Most: {client_id} in group {group_id}, {commits_in_busiest_minute:,} commits in one minute; {repeated_percent:d} % of the offsets were committed already. Commit every few seconds."
order: 41
*/
WITH minutes AS (
    SELECT
        group_id,
        client_id,
        client_address,
        cluster,
        connection_id,
        at_us DIV 60000000 AS minute,
        max(software) AS software,
        count(*) AS commits,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, exchange)) AS example
    FROM client_exchanges
    WHERE api_key = 8
    GROUP BY group_id, client_id, client_address, cluster, connection_id, at_us DIV 60000000
),
found AS (
    SELECT
        group_id,
        client_id,
        client_address,
        cluster,
        connection_id,
        max(software) AS software,
        CAST(sum(commits) AS BIGINT) AS commits,
        max(commits) AS commits_in_busiest_minute,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM minutes
    GROUP BY group_id, client_id, client_address, cluster, connection_id
),
steps AS (
    SELECT
        connection_id,
        group_id,
        offset,
        lag(offset) OVER (
            PARTITION BY connection_id, group_id, coalesce(topic, topic_id), partition ORDER BY exchange
        ) AS before
    FROM offsets
    WHERE kind = 'commit'
),
repeats AS (
    SELECT
        connection_id,
        group_id,
        count(CASE WHEN offset = before THEN 1 END) AS repeated,
        count(*) AS offsets
    FROM steps
    GROUP BY connection_id, group_id
)
SELECT
    f.client_id,
    f.client_address,
    f.software,
    f.group_id,
    f.commits,
    f.commits_in_busiest_minute,
    coalesce(100 * r.repeated DIV r.offsets, 0) AS repeated_percent,
    f.cluster,
    f.first_at,
    f.last_at,
    f.connection_id,
    f.example.exchange AS exchange
FROM found AS f
LEFT JOIN repeats AS r ON r.connection_id = f.connection_id AND r.group_id <=> f.group_id
WHERE f.commits_in_busiest_minute >= :min_commits_per_minute
ORDER BY commits_in_busiest_minute DESC, commits DESC, client_id, client_address, connection_id, group_id, cluster
