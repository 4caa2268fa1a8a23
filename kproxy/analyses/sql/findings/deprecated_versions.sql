/*
id: deprecated_versions
title: Clients that speak versions which newer brokers refuse
severity: warning
meaning: >
  Kafka 4.0 dropped old versions of its APIs (KIP-896). These clients use some of them, and stop working when the brokers are upgraded.
  What brokers say to each other is left out: it is upgraded with them.
columns:
  client_id: ""
  client_address: ""
  software: ""
  release: release that is asked about
  api_key: Kafka's number of the API
  api_name: ""
  lowest_version: lowest version that the client asked for
  highest_version: highest version that the client asked for
  min_version: "lowest version that the release answers; empty: it does not have the API"
  taken: the same in words
  requests: with a version that the release refuses
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Update these clients before the brokers; see the analysis readiness for all of them and for other releases.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
parameters:
  release: {default: "4.0", meaning: "The release of Kafka that is asked about."}
needs: [client_exchanges, api_versions, releases]
verdict: "{count client_id:client/clients} that Kafka {release} will refuse. Most: {client_id} at {client_address} uses {api_name} v{lowest_version}, of which Kafka {release} takes {taken}. Update it before the brokers."
order: 45
*/
WITH known AS (
    SELECT v.api_key, max(v.api_name) AS api_name
    FROM api_versions AS v
    JOIN releases AS r ON r.release = v.release
    JOIN releases AS t ON t.release = :release AND r.release_order < t.release_order
    GROUP BY v.api_key
),
target AS (
    SELECT api_key, min_version
    FROM api_versions
    WHERE release = :release
),
found AS (
    SELECT
        e.client_id,
        e.client_address,
        e.api_key,
        k.api_name,
        t.min_version,
        max(e.software) AS software,
        count(*) AS requests,
        min(e.api_version) AS lowest_version,
        max(e.api_version) AS highest_version,
        min(e.at) AS first_at,
        max(e.at) AS last_at,
        min(struct(e.at_us, e.connection_id, e.exchange)) AS example
    FROM client_exchanges AS e
    JOIN known AS k ON k.api_key = e.api_key
    LEFT JOIN target AS t ON t.api_key = e.api_key
    WHERE e.role = 'client' AND (t.api_key IS NULL OR e.api_version < t.min_version)
    GROUP BY e.client_id, e.client_address, e.api_key, k.api_name, t.min_version
)
SELECT
    client_id,
    client_address,
    software,
    CAST(:release AS STRING) AS release,
    api_key,
    api_name,
    lowest_version,
    highest_version,
    min_version,
    CASE
        WHEN min_version IS NULL THEN 'none'
        ELSE 'v' || CAST(min_version AS STRING) || '+'
    END AS taken,
    requests,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
ORDER BY requests DESC, client_id, client_address, api_key
