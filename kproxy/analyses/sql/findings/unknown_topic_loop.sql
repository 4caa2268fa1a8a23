/*
id: unknown_topic_loop
title: Clients that keep asking for a topic that is not there
severity: warning
meaning: >
  The broker says again and again that the topic or partition does not exist, and the client goes on asking. The name is wrong, the
  topic was deleted while clients still use it, or was made anew with another id.
columns:
  client_id: ""
  client_address: ""
  software: ""
  topic: ""
  errors: answers that the topic or partition does not exist
  error_name: ""
  api_name: ""
  seconds: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Correct the name in the client's configuration or create the topic; restart clients that hold on to a deleted topic.
reference: https://kafka.apache.org/protocol#protocol_error_codes
parameters:
  min_errors: {default: 10, meaning: "Fewer such answers to a client for a topic are not listed."}
  min_seconds: {default: 3, meaning: "A client that stopped within this time is not listed."}
needs: [client_errors]
verdict: "{count client_id:client keeps/clients keep} asking for topics that do not exist. Most: {client_id} at {client_address} for {topic}, {errors:time/times} in {seconds:,} s. Correct the name or create the topic."
order: 21
*/
WITH found AS (
    SELECT
        client_id,
        client_address,
        cluster,
        resource AS topic,
        max(software) AS software,
        count(*) AS errors,
        max(api_name) AS api_name,
        max(error_name) AS error_name,
        min(at_us) AS first_us,
        max(at_us) AS last_us,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_errors
    WHERE resource_type = 'topic' AND error_code IN (3, 100)
    GROUP BY client_id, client_address, cluster, resource
)
SELECT
    client_id,
    client_address,
    software,
    topic,
    errors,
    error_name,
    api_name,
    (last_us - first_us) DIV 1000000 AS seconds,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors AND last_us - first_us >= :min_seconds * 1000000
ORDER BY errors DESC, client_id, client_address, topic, cluster
