/*
id: old_message_format
title: Producers that write the message formats of before Kafka 0.11
severity: warning
meaning: >
  Records are written in message format 0 or 1. They have no headers, no idempotence and no transactions, cost the broker a conversion,
  and brokers of Kafka 4 do not take them (KIP-724).
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  magic: message format, 0 or 1
  batches: messages or compressed wrappers
  records: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Update the client; with librdkafka, do not set broker.version.fallback or api.version.request=false.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-724%3A+Drop+support+for+message+formats+v0+and+v1
parameters:
  min_batches: {default: 1, meaning: "Fewer such messages of a client to a topic are not listed."}
needs: [produced_minutes]
verdict: "{count client_id:producer writes/producers write} an old message format. Most: {client_id} at {client_address} to {topic}, {records:record/records} in format {magic}. Kafka 4 refuses it: update the client."
order: 46
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        topic,
        magic,
        max(software) AS software,
        CAST(sum(batches) AS BIGINT) AS batches,
        CAST(sum(records) AS BIGINT) AS records,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        min(first_at) AS first_at,
        max(last_at) AS last_at,
        min(example) AS example
    FROM produced_minutes
    WHERE magic < 2
    GROUP BY client_id, client_address, cluster, topic, magic
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    magic,
    batches,
    records,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE batches >= :min_batches
ORDER BY records DESC, client_id, client_address, topic, magic, cluster
