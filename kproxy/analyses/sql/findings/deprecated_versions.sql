/*
id: deprecated_versions
title: Clients that speak versions which newer brokers refuse
severity: notice
meaning: >
  Kafka 4.0 dropped old versions of its APIs (KIP-896). These clients asked for some of them although the broker offered more, or do
  not negotiate versions, or their library has no others: they stop working when the brokers are upgraded. Left out are
  clients that an old broker holds down, as they go higher with a newer one, and brokers, which are upgraded together.
basis:
  rests_on: the versions of requests, and those that the library is known to have
  certainty: inferred
  wrong_if: the client is updated, or goes higher with a newer broker
columns:
  release: Kafka release that the brokers would have
  api_key: Kafka's number of the API
  api_name: ""
  lowest_version: lowest version that the client used
  highest_version: highest version that the client used
  min_version: "lowest version that the release answers; empty: it does not have the API"
  taken: versions that the release accepts, in words
  requests: with a version that the release refuses
action: Update these clients before the brokers; see the analysis readiness for all of them and for other releases.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
parameters:
  release: {default: "4.0", meaning: "The Kafka release that the brokers would have."}
verdict: "{count client_id:client/clients} that Kafka {release} will refuse. {most requests}: {client_id} at {client_address} uses {api_name} v{lowest_version}, Kafka {release} accepts {taken}. Update it before the brokers."
order: 45
frame:
  group_by: [client_id, client_address, api_key, api_name, min_version]
  values: {lowest_version: min(api_version), highest_version: max(api_version)}
  derived:
    release: CAST($release AS VARCHAR)
    taken: CASE WHEN min_version IS NULL THEN 'none' ELSE 'v' || CAST(min_version AS VARCHAR) || '+' END
  order_by: requests DESC
*/
WITH known AS (
    SELECT v.api_key, max(v.api_name) AS api_name
    FROM api_versions AS v
    JOIN releases AS r ON r.release = v.release
    JOIN releases AS t ON t.release = $release AND r.release_order < t.release_order
    GROUP BY v.api_key
), target AS (
    SELECT api_key, min_version
    FROM api_versions
    WHERE release = $release
)
SELECT e.*, t.min_version
FROM client_exchanges AS e
JOIN clients AS c ON c.connection_id = e.connection_id
JOIN known AS k ON k.api_key = e.api_key
JOIN used_versions AS u
    ON u.client = c.client AND u.client_address = c.client_address AND u.broker_address = c.broker_address
    AND u.broker_port = c.broker_port AND u.api_key = e.api_key AND u.api_version = e.api_version
LEFT JOIN target AS t ON t.api_key = e.api_key
WHERE e.role = 'client' AND (t.api_key IS NULL OR (e.api_version < t.min_version AND u.bound < t.min_version))
