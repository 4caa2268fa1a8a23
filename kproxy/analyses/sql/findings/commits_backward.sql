/*
id: commits_backward
title: Groups whose committed offsets go back and forth
severity: warning
meaning: >
  Two programs of one group commit offsets of the same partition in turn, and one sets back what the other had committed. Both read the
  partition, so that records are handled twice; who starts next goes on at the offset of the one that committed last. Mostly they assign
  partitions to themselves (assign instead of subscribe), or one is a copy that was forgotten. Or one program handles records in several
  threads and each commits what it has done: who goes on at the lower offset reads records again, and records below a higher one that were not
  handled yet are lost if the program ends then.
basis:
  rests_on: offsets in OffsetCommit requests of the partition, one after the other
  certainty: said
  wrong_if: an operator sets offsets back again and again
columns:
  cause: "two readers, or one that commits out of order"
  partitions: number of partitions with such commits
  setbacks: commits that went behind the one before, without a Fetch that began there again
  records: offsets from the farthest such commit to the one before
  clients: that commit these partitions
action: >
  With two readers, have both subscribe, so that the group gives each partition to one of them; or give each its own group.id, or its own
  partitions. One that commits out of order has to commit the first offset that is not handled yet.
reference: https://kafka.apache.org/documentation/#consumerconfigs_group.id
parameters:
  min_setbacks: {default: 3, meaning: "Fewer such commits of a group for a topic are not listed: a rebalance may bring some."}
verdict: "{count group_id:group/groups} whose committed offsets go back and forth. {most setbacks}: {group_id} on {topic}, {setbacks:time/times} by {clients:client/clients}, by up to {records:record/records}; cause: {cause}, {client_id} at {client_address}[{rows where cause=two readers:?}. Let each partition have one reader][{rows where cause=one that commits out of order:?}. Commit the first offset that is not handled yet]."
order: 21
only_if: FROM offsets WHERE kind = 'commit' HAVING count(*) >= $min_setbacks AND count(DISTINCT connection_id || ' ' || exchange) > 1
frame:
  group_by: [cluster, group_id, topic, cause]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    partitions: count(DISTINCT partition)
    setbacks: count(DISTINCT connection_id || ' ' || exchange)
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
        lag(at_us) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_us,
        lag(who) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_who,
        lag(until_us) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY at_us, connection_id, exchange) AS before_until_us
    FROM spans
), returns AS (
    SELECT client_id, client_address, cluster, topic, partition, partition_offset, at_us,
        lag(partition_offset) OVER (PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us, connection_id, exchange) AS before_offset
    FROM client_offsets
    WHERE kind = 'fetch' AND error_code = 0 AND partition_offset IS NOT NULL
)
SELECT o.*, CASE WHEN who = before_who THEN 'one that commits out of order' ELSE 'two readers' END AS cause
FROM (SELECT * FROM ordered WHERE partition_offset < before_offset) AS o
ASOF LEFT JOIN (SELECT * FROM returns WHERE partition_offset < before_offset) AS f -- it went back itself, to read again
    ON f.client_id IS NOT DISTINCT FROM o.client_id AND f.client_address = o.client_address AND f.cluster = o.cluster AND f.topic = o.topic
    AND f.partition = o.partition AND f.at_us <= o.at_us
WHERE CASE
    WHEN who <> before_who THEN before_until_us > o.at_us -- the other one goes on
    ELSE coalesce(f.at_us < o.before_us - 10000000, true) END
