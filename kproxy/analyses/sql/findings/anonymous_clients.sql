/*
id: anonymous_clients
title: Clients that use their library's default client id
severity: info
meaning: >
  The client id is the one that the library gives to every program, or empty. Logs, metrics, quotas and this report cannot tell such
  programs from each other.
columns:
  client_id: ""
  shown_client_id: the client id, or the word empty
  client_address: ""
  software: ""
  requests: ""
  addresses: ""
  connections: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Set client.id to the name of the application.
reference: https://kafka.apache.org/documentation/#producerconfigs_client.id
parameters:
  default_ids: {default: "^(|rdkafka|sarama|kgo|kafkajs|pykafka|kafka-python(-(producer|consumer|admin))?(-[0-9.]+)?|aiokafka-((producer|consumer|admin)-)?[0-9.]+|(consumer|producer|adminclient)-[0-9]+)$", meaning: "Client ids that say nothing, as a regular expression."}
  min_requests: {default: 1, meaning: "Client ids with fewer requests are not listed."}
needs: [client_exchanges]
verdict: "{rows:default client id/default client ids} in use. Most: {shown_client_id}, {requests:request/requests} from {addresses:address/addresses}. Set client.id to the application's name."
order: 60
*/
WITH found AS (
    SELECT
        client_id,
        max(software) AS software,
        min(client_address) AS client_address,
        count(*) AS requests,
        count(DISTINCT client_address) AS addresses,
        count(DISTINCT connection_id) AS connections,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM client_exchanges
    WHERE api_key IS NOT NULL AND api_key <> 7 AND coalesce(client_id, '') RLIKE :default_ids
    GROUP BY client_id
)
SELECT
    client_id,
    CASE WHEN coalesce(client_id, '') = '' THEN 'empty' ELSE client_id END AS shown_client_id,
    client_address,
    software,
    requests,
    addresses,
    connections,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE requests >= :min_requests
ORDER BY requests DESC, client_id
