/*
id: old_message_format
title: Producers that write the message formats of before Kafka 0.11
severity: notice
meaning: >
  Records are written in message format 0 or 1. They have no headers, no idempotence and no transactions, cost the broker a conversion,
  and brokers of Kafka 4 do not take them (KIP-724).
basis:
  rests_on: the magic byte of produced batches
  certainty: said
  wrong_if: a proxy in between converts what newer clients send
columns:
  magic: message format, 0 or 1
  batches: messages or compressed wrappers
  records: ""
action: Update the client; with librdkafka, do not set broker.version.fallback or api.version.request=false.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-724%3A+Drop+support+for+message+formats+v0+and+v1
parameters:
  min_batches: {default: 1, meaning: "Fewer such messages of a client to a topic are not listed."}
verdict: "{count client_id:producer writes/producers write} an old message format. {most records}: {client_id} at {client_address} to {topic}, {records:record/records} in format {magic}. Kafka 4 refuses it: update the client."
order: 46
only_if: FROM record_batches WHERE direction = 'produce' AND magic < 2
frame:
  group_by: [client_id, client_address, cluster, topic, magic]
  values:
    bytes: CAST(sum(bytes) AS BIGINT)
  having: batches >= $min_batches
  order_by: records DESC
  is_summed: true
*/
SELECT *
FROM produced_minutes
WHERE magic < 2
