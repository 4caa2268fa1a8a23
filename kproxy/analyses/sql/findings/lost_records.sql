/*
id: lost_records
title: Acknowledged records whose offsets were given to others
severity: critical
meaning: >
  The broker gave a batch offsets that were already taken: it had acknowledged others there before. Its log had been cut off meanwhile,
  mostly because a replica that lacked these records became the leader (unclean leader election, or acks=1 and a broker that failed).
  A producer's resend, which gets its first offset again, and a partition that begins at 0 again, as of a topic that is created
  anew, are left out.
basis:
  rests_on: first offsets in answers to Produce
  certainty: inferred
  wrong_if: the topic was created anew, and its first records were not captured
columns:
  broker: broker that gave the offsets again
  topic: ""
  partition: ""
  from_offset: first offset that was given again
  end_offset: end of what had been acknowledged before
  records: offsets between the two
  acks: acks of the producer whose batch was the first to take such an offset
  cluster: ""
action: >
  Send the records between these offsets again, from where they came from. Set unclean.leader.election.enable=false, acks=all and
  min.insync.replicas=2.
reference: https://kafka.apache.org/documentation/#design_uncleanleader
parameters:
  min_records: {default: 1, meaning: "Partitions that lost fewer records are not listed."}
sampled: The batches that were acknowledged before, or a resend, may be among the exchanges that are missing.
verdict: "{rows:partition/partitions} lost acknowledged records. Most: {topic}-{partition} at {broker}, {records:offset/offsets} from {from_offset:d} on given again. Send them again; set acks=all, min.insync.replicas=2 and unclean.leader.election.enable=false."
order: 11
only_if: FROM record_batches WHERE direction = 'produce' AND appended_offset > 0
frame:
  group_by: [cluster, topic, partition, end_offset]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    broker: min_by(broker, at_us)
    acks: min_by(acks, at_us)
    from_offset: min(appended_offset)
    records: end_offset - min(appended_offset)
  having: records >= $min_records
  order_by: records DESC
*/
WITH appended AS (
    SELECT b.*, e.acks, epoch_us(e.response_at) AS answered_us,
        -- times that it was sent before and may have been appended: not answered, timed out (7, 20), or acknowledged
        count(CASE WHEN coalesce(b.error_code, 0) IN (0, 7, 20) THEN 1 END) OVER (
            PARTITION BY b.cluster, coalesce(b.topic, b.topic_id), b.partition, b.producer_id, b.producer_epoch, b.base_sequence
            ORDER BY b.at_us, b.connection_id, b.exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS attempt
    FROM client_batches AS b
    JOIN exchanges AS e ON e.connection_id = b.connection_id AND e.exchange = b.exchange
    WHERE b.direction = 'produce'
), lives AS ( -- a partition that begins at 0 again is that of a topic that was created anew
    SELECT *,
        count(CASE WHEN appended_offset = 0 THEN 1 END) OVER (
            PARTITION BY cluster, topic, topic_id, partition ORDER BY answered_us) AS life
    FROM appended
    WHERE appended_offset >= 0
), ends AS (
    SELECT cluster, topic, topic_id, partition, life, answered_us,
        max(appended_offset + count) OVER (
            PARTITION BY cluster, topic, topic_id, partition, life
            ORDER BY answered_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS end_offset
    FROM lives
)
SELECT a.*, e.end_offset
FROM lives AS a
ASOF JOIN ends AS e ON e.cluster = a.cluster AND e.topic = a.topic AND e.partition = a.partition AND e.life = a.life
    AND e.answered_us < a.at_us
WHERE a.appended_offset > 0 AND a.appended_offset < e.end_offset
    AND e.topic_id IS NOT DISTINCT FROM a.topic_id
    AND NOT EXISTS (SELECT 1 FROM clock_jumps AS j WHERE j.cluster = a.cluster)
    AND (a.producer_id IS NULL OR a.producer_id < 0 OR a.attempt = 1)
