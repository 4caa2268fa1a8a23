/*
id: share_redelivery
title: Records that members of a share group do not accept
severity: notice
meaning: >
  A member of a share group got records and did not accept them: it released them, or held them until their lock was over, and the broker
  delivers them again, until its limit (group.share.delivery.count.limit); then it gives them up. Records that a member rejects are given
  up at once.
basis:
  rests_on: delivery counts in answers to ShareFetch, and the members' answers
  certainty: said
  wrong_if: members of the group that were not captured accepted the records later
columns:
  severity: "warning: records reached the limit; notice: none did, or the member rejected them itself"
  group_id: the share group
  cause: "released, lock timed out or rejected: how the delivery before ended"
  topic: ""
  records: so many records
  deliveries: how often one of them was delivered at most; empty if the member rejected them
  at_limit: records that were delivered delivery_limit times; the broker gives them up unless the last one is accepted
  partition: of the first of them
  first_offset: of the first of them
  seconds: ""
action: >
  released, rejected: see in the member's log why it cannot handle them, and keep them elsewhere (a dead-letter topic). lock timed out: raise
  group.share.record.lock.duration.ms, have the member get fewer records at a time (max.poll.records), or renew the locks.
reference: https://kafka.apache.org/documentation/#groupconfigs_group.share.record.lock.duration.ms
parameters:
  min_deliveries: {default: 3, least: 2, meaning: "Records that were delivered less often are not listed: a member that ends leaves some to others."}
  min_records: {default: 3, least: 1, meaning: "Fewer records of a client, group and topic are not listed, unless one reached the limit."}
  delivery_limit: {default: 5, least: 2, meaning: "group.share.delivery.count.limit of the brokers."}
  pause_seconds: {default: 600, meaning: "After so long without one, the next one begins another episode, with a row of its own."}
sampled: The members' answers may be among the exchanges that are missing.
verdict: "{count group_id:share group has/share groups have} records that members do not accept. {most records}: {client_id} at {client_address} in {group_id}, {records:record/records} of {topic}, {cause}[{deliveries:?}, delivered up to {deliveries:time/times}][{at_limit:?}; {at_limit:,} reached the limit, after which the broker gives a record up]. Look at the first, {topic}-{partition} offset {first_offset}, and at the member's log."
order: 23
only_if: FROM share_deliveries WHERE delivery_count >= $min_deliveries OR event = 'reject'
frame:
  group_by: [client_id, client_address, cluster, group_id, topic, cause]
  pause: pause_seconds
  values:
    records: count(DISTINCT struct_pack(partition := partition, record_offset := record_offset))
    deliveries: CAST(max(deliveries) AS BIGINT)
    at_limit: count(DISTINCT CASE WHEN deliveries >= $delivery_limit THEN struct_pack(partition := partition, record_offset := record_offset) END)
    first: min(struct_pack(at_us := at_us, partition := partition, record_offset := record_offset))
  derived:
    severity: CASE WHEN at_limit > 0 AND cause <> 'rejected' THEN 'warning' ELSE 'notice' END
    partition: first.partition
    first_offset: first.record_offset
  having: records >= $min_records OR at_limit > 0
  order_by: at_limit DESC, records DESC
*/
WITH ranges AS ( -- a batch has some hundred records; a longer range counts with its first thousand
    SELECT d.event, d.connection_id, d.exchange, d.seen_at, epoch_us(d.seen_at) AS at_us, d.client_id, c.client_address, c.software, c.cluster,
        d.group_id, coalesce(d.topic, d.topic_id) AS topic, d.partition, d.delivery_count AS deliveries,
        unnest(generate_series(d.first_offset, least(d.last_offset, d.first_offset + 999))) AS record_offset
    FROM share_deliveries AS d
    JOIN client_connections AS c ON c.connection_id = d.connection_id
    WHERE d.seen_at IS NOT NULL AND d.group_id IS NOT NULL AND d.last_offset >= d.first_offset AND d.first_offset BETWEEN 0 AND 9000000000000000000
        AND ((d.event = 'acquired' AND d.delivery_count >= 2) OR (d.event IN ('release', 'reject') AND d.error_code = 0))
), again AS (
    SELECT *, lag(at_us) OVER (PARTITION BY cluster, group_id, topic, partition, record_offset ORDER BY at_us, deliveries) AS before_us
    FROM ranges
    WHERE event = 'acquired'
), caused AS (
    SELECT a.* EXCLUDE (before_us), CASE WHEN r.at_us >= coalesce(a.before_us, 0) THEN 'released' ELSE 'lock timed out' END AS cause
    FROM again AS a
    ASOF LEFT JOIN (SELECT cluster, group_id, topic, partition, record_offset, at_us FROM ranges WHERE event = 'release') AS r
        ON r.cluster = a.cluster AND r.group_id = a.group_id AND r.topic = a.topic AND r.partition = a.partition
            AND r.record_offset = a.record_offset AND r.at_us <= a.at_us
    WHERE a.deliveries >= $min_deliveries
)
SELECT * FROM caused
UNION ALL
SELECT r.* REPLACE (NULL AS deliveries), 'rejected' FROM ranges AS r WHERE r.event = 'reject'
