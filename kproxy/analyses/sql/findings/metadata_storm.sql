/*
id: metadata_storm
title: Clients that ask for metadata again and again
severity: warning
meaning: >
  A client needs metadata when it starts, every five minutes, and after a change of leaders. One that asks all the time either
  looks for a topic that does not exist, is made anew for each record, or asks for every topic of the cluster by mistake.
columns:
  client_id: ""
  client_address: ""
  software: ""
  requests: Metadata requests
  requests_in_busiest_minute: of those
  without_topics: "of those, without a topic: they ask for all or none"
  connections: ""
  response_bytes: bytes of their answers
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: >
  Keep one client for the life of the process, name topics that exist, and leave metadata.max.age.ms at its default of five minutes.
reference: https://kafka.apache.org/documentation/#producerconfigs_metadata.max.age.ms
parameters:
  min_requests_per_minute: {default: 120, meaning: "Fewer Metadata requests of one client, in its busiest minute, are not listed."}
needs: [client_exchanges]
verdict: "{rows:client keeps/clients keep} asking for metadata. Most: {client_id} at {client_address}, {requests_in_busiest_minute:,} requests in one minute on {connections:connection/connections}. Keep one client per process, and check that the topics it names exist."
order: 42
*/
WITH asked AS (
    SELECT
        *,
        at_us DIV 60000000 AS minute,
        CASE WHEN size(topics) > 0 THEN 1 ELSE 0 END AS names_topics
    FROM client_exchanges
    WHERE api_key = 3
),
minutes AS (
    SELECT client_id, client_address, minute, count(*) AS requests
    FROM asked
    GROUP BY client_id, client_address, minute
),
busiest AS (
    SELECT client_id, client_address, max(requests) AS requests_in_busiest_minute
    FROM minutes
    GROUP BY client_id, client_address
),
found AS (
    SELECT
        client_id,
        client_address,
        max(software) AS software,
        count(*) AS requests,
        count(DISTINCT connection_id) AS connections,
        CAST(count(*) - sum(names_topics) AS BIGINT) AS without_topics,
        CAST(sum(response_size) AS BIGINT) AS response_bytes,
        min(at) AS first_at,
        max(at) AS last_at,
        min(struct(at_us, connection_id, exchange)) AS example
    FROM asked
    GROUP BY client_id, client_address
)
SELECT
    f.client_id,
    f.client_address,
    f.software,
    f.requests,
    b.requests_in_busiest_minute,
    f.without_topics,
    f.connections,
    f.response_bytes,
    f.first_at,
    f.last_at,
    f.example.connection_id AS connection_id,
    f.example.exchange AS exchange
FROM found AS f
JOIN busiest AS b ON b.client_id <=> f.client_id AND b.client_address = f.client_address
WHERE b.requests_in_busiest_minute >= :min_requests_per_minute
ORDER BY requests_in_busiest_minute DESC, requests DESC, client_id, client_address
