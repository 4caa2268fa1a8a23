/*
id: moving_leaders
title: Partitions whose leader changes again and again
severity: warning
meaning: >
  The partition is led by one broker, then by another, and so on, within minutes of each other: a broker loses its session, its disk or its
  network for moments and comes back, or something elects leaders all the time. At each change clients are refused
  (NOT_LEADER_OR_FOLLOWER), look the leader up and send again; producers with acks=1 lose records. One restart of a broker makes two
  changes.
basis:
  rests_on: leaders and their epochs in answers to Metadata
  certainty: said
  wrong_if: brokers were restarted one after the other, several times in a row
columns:
  changes: of the leader, between epochs that were seen
  seconds: ""
  leaders: ids of the brokers that led it
  cluster: ""
action: Read the logs of these brokers and of the controller for sessions that end; look for scripts that elect leaders or move partitions.
reference: https://kafka.apache.org/documentation/#basic_ops_leader_balancing
parameters:
  min_changes: {default: 8, least: 3, meaning: "Partitions whose leader changed less often are not listed."}
  pause_seconds: {default: 600, meaning: "After so long without a change, the next one begins another episode, with a row of its own."}
sampled: Answers that name a leader may be among the exchanges that are missing.
verdict: "{rows:partition has/partitions have} leaders that change again and again. {most changes}: {topic}-{partition}, {changes:time/times} in {seconds:,} s, between the brokers {leaders}. Read their logs and the controller's, and look for scripts that elect leaders."
order: 22
only_if: FROM partition_states WHERE leader_id >= 0 AND leader_epoch >= 0 HAVING max(leader_epoch) - min(leader_epoch) >= $min_changes
frame:
  group_by: [cluster, topic, partition]
  pause: pause_seconds
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    changes: count(*)
    leaders: array_to_string(sorted_set(CAST(leader_id AS VARCHAR)), ', ')
  having: changes >= $min_changes
  order_by: changes DESC
*/
WITH leaders AS ( -- each epoch once: connections hear of it at different times
    SELECT cluster, topic, partition, leader_epoch, leader_id, min_by(client_id, since_us) AS client_id,
        min_by(client_address, since_us) AS client_address, min_by(software, since_us) AS software, min(seen_at) AS seen_at,
        min(since_us) AS at_us, min_by(connection_id, since_us) AS connection_id, min_by(exchange, since_us) AS exchange
    FROM partition_spans
    WHERE leader_id >= 0 AND leader_epoch >= 0
    GROUP BY cluster, topic, partition, leader_epoch, leader_id
), compared AS (
    SELECT *, lag(leader_id) OVER (PARTITION BY cluster, topic, partition ORDER BY leader_epoch, at_us) AS leader_before,
        lag(at_us) OVER (PARTITION BY cluster, topic, partition ORDER BY leader_epoch, at_us) AS before_us,
        lag(leader_epoch) OVER (PARTITION BY cluster, topic, partition ORDER BY leader_epoch, at_us) AS epoch_before
    FROM leaders
)
-- a topic that was made anew has other leaders at the same epoch
SELECT * FROM compared WHERE leader_id <> leader_before AND at_us > before_us AND leader_epoch > epoch_before
