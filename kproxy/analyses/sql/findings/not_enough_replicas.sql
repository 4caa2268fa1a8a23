/*
id: not_enough_replicas
title: Records refused because too few replicas are in sync
severity: critical
meaning: >
  Fewer replicas are in sync than min.insync.replicas asks for, so the broker refuses records with acks=all. Producers retry until
  delivery.timeout.ms, then the records are lost to them.
columns:
  client_id: ""
  client_address: ""
  software: ""
  broker: ""
  topic: ""
  partition: ""
  errors: Produce requests refused for this partition
  error_name: ""
  seconds: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Bring the missing brokers back; look for under-replicated partitions (kafka-topics.sh --describe --under-min-isr-partitions).
reference: https://kafka.apache.org/documentation/#topicconfigs_min.insync.replicas
parameters:
  min_errors: {default: 1, meaning: "Fewer such answers to a client for a partition are not listed."}
needs: [client_errors]
verdict: "{rows:partition/partitions} refusing records because too few replicas are in sync. Most: {topic}-{partition} for {client_id} at {client_address}, {errors:time/times} in {seconds:,} s. Bring the missing brokers back: kafka-topics.sh --describe --under-min-isr-partitions."
order: 10
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        broker,
        resource AS topic,
        partition,
        max(software) AS software,
        max(error_name) AS error_name,
        count(*) AS errors,
        (max(at_us) - min(at_us)) DIV 1000000 AS seconds,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_errors
    WHERE api_key = 0 AND error_code IN (19, 20)
    GROUP BY client_id, client_address, cluster, broker, resource, partition
)
SELECT
    client_id,
    client_address,
    software,
    broker,
    topic,
    partition,
    errors,
    error_name,
    seconds,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors
ORDER BY errors DESC, client_id, client_address, broker, topic, partition, cluster
