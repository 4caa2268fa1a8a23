/*
id: acks_below_all
title: Producers that do not wait for all replicas
severity: notice
meaning: >
  With acks=0 the producer never learns that a record was lost; with acks=1 the leader alone has it when it answers, and
  records that no follower has copied yet are lost when that broker fails.
basis:
  rests_on: the field acks of Produce requests
  certainty: said
  wrong_if: the topic has one replica, or its records may be lost
columns:
  severity: notice for acks=0, info for acks=1
  acks: "0: not even the leader answers; 1: the leader alone"
  batches: record batches sent with it
  records: records sent with it
  bytes: bytes of these batches on the wire
action: Set acks=all (the default since Kafka 3.0) and min.insync.replicas=2 on topics whose records must not be lost.
reference: https://kafka.apache.org/documentation/#producerconfigs_acks
parameters:
  min_batches: {default: 1, meaning: "A client with fewer such record batches to a topic is not listed."}
verdict: "{count client_id:producer/producers} with acks=0 or acks=1. {most records}: {client_id} to {topic}, {records:record/records} with acks={acks:d}. Such records can be lost when a broker fails: set acks=all."
order: 30
only_if: FROM exchanges WHERE acks IN (0, 1)
frame:
  group_by: [client_id, client_address, cluster, topic, acks]
  derived:
    severity: CASE WHEN acks = 0 THEN 'notice' ELSE 'info' END
  having: batches >= $min_batches
  order_by: acks, records DESC
  is_summed: true
*/
SELECT *
FROM produced_minutes
WHERE acks IN (0, 1)
