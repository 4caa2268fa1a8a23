/*
id: acks_below_all
title: Producers that do not wait for all replicas
severity: warning
meaning: >
  With acks=0 the producer never learns that a record was lost; with acks=1 the leader alone has it when it answers, and
  records that no follower has copied yet are lost when that broker fails.
columns:
  severity: warning for acks=0, notice for acks=1
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  acks: "0: not even the leader answers; 1: the leader alone"
  batches: sent so
  records: sent so
  bytes: of these record batches, as on the wire
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set acks=all (the default since Kafka 3.0) and min.insync.replicas=2 on topics whose records must not be lost.
reference: https://kafka.apache.org/documentation/#producerconfigs_acks
parameters:
  min_batches: {default: 1, meaning: "A client with fewer such record batches to a topic is not listed."}
needs: [produced_minutes]
verdict: "{count client_id:producer/producers} with acks=0 or acks=1. Most: {client_id} to {topic}, {records:record/records} with acks={acks:d}. They can be lost when a broker fails: set acks=all."
order: 30
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        topic,
        acks,
        max(software) AS software,
        CAST(sum(batches) AS BIGINT) AS batches,
        CAST(sum(records) AS BIGINT) AS records,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM produced_minutes
    WHERE acks IN (0, 1)
    GROUP BY client_id, client_address, cluster, topic, acks
)
SELECT
    CASE WHEN acks = 0 THEN 'warning' ELSE 'notice' END AS severity,
    client_id,
    client_address,
    software,
    topic,
    acks,
    batches,
    records,
    bytes,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE batches >= :min_batches
ORDER BY acks, records DESC, client_id, client_address, topic, cluster
