/*
id: commits_backward
title: Groups whose members set each other's committed offsets back
severity: warning
meaning: >
  Two programs of one group commit offsets of the same partition in turn, and one sets back what the other had committed. Both read the
  partition, so that records are handled twice; who starts next goes on at the offset of the one that committed last. Mostly they assign
  partitions to themselves (assign instead of subscribe), or one is a copy that was forgotten.
basis:
  rests_on: offsets in OffsetCommit requests of the partition, one after the other
  certainty: said
  wrong_if: an operator sets offsets back again and again
columns:
  partitions: number of partitions with such commits
  setbacks: commits that went behind a commit of another client
  records: offsets from the farthest such commit to the one before
  clients: that commit these partitions
action: Have both subscribe, so that the group gives each partition to one of them; or give each its own group.id, or its own partitions.
reference: https://kafka.apache.org/documentation/#consumerconfigs_group.id
parameters:
  min_setbacks: {default: 3, meaning: "Fewer such commits of a group for a topic are not listed: a rebalance may bring some."}
verdict: "{count group_id:group/groups} whose members set each other's committed offsets back. {most setbacks}: {group_id} on {topic}, {setbacks:time/times} by {clients:client/clients}, by up to {records:record/records}; {client_id} at {client_address} is one of them. Let each partition have one reader."
order: 21
only_if: FROM offsets WHERE kind = 'commit' HAVING count(*) >= $min_setbacks AND count(DISTINCT coalesce(client_id, '') || connection_id) > 1
frame:
  group_by: [cluster, group_id, topic]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    partitions: count(DISTINCT partition)
    setbacks: count(*)
    records: max(before_offset - partition_offset)
    clients: max(clients)
  having: setbacks >= $min_setbacks
  order_by: setbacks DESC
*/
WITH commits AS (
    SELECT *, coalesce(client_id, '') || ' ' || client_address || ' ' || connection_id AS who
    FROM client_offsets
    WHERE kind = 'commit' AND error_code = 0 AND partition_offset >= 0
), spans AS (
    SELECT *, max(at_us) OVER (PARTITION BY cluster, group_id, topic, partition, who) AS until_us,
        count(DISTINCT who) OVER (PARTITION BY cluster, group_id, topic) AS clients
    FROM commits
), ordered AS (
    SELECT *,
        lag(partition_offset) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_offset,
        lag(who) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_who,
        lag(until_us) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_until_us
    FROM spans
)
SELECT *
FROM ordered
WHERE partition_offset < before_offset AND who <> before_who
    AND before_until_us > at_us -- the other one goes on
