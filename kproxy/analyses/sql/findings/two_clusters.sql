/*
id: two_clusters
title: Clients that work now in one cluster and then in another
severity: warning
meaning: >
  The client writes to (or reads from) a topic in one cluster, connects anew, does the same in another cluster, and so on. Mostly its
  bootstrap.servers names brokers of two clusters: at each start it takes what answers first. Its records are divided between two clusters,
  and no reader gets all of them. A client that is connected to both at once, as a mirror is, one that moves once and back, one that rests
  whenever it goes to the other, as jobs at fixed times do, and one with its library's default client id are left out.
basis:
  rests_on: cluster ids in Metadata answers to the same client, and connections that never overlap
  certainty: inferred
  wrong_if: a program is told to work in both by turns, such as a copy or a check of two clusters, or several programs share this client id and address
columns:
  api_name: Produce or Fetch
  topic: ""
  clusters: ids of the clusters, each with the broker that the client worked with first there
  changes: how often it went from one cluster to another, without a long rest
  requests: Produce or Fetch requests for the topic, in all clusters
action: Compare bootstrap.servers (and the DNS names in it) with the brokers of each cluster; name the brokers of one cluster only.
reference: https://kafka.apache.org/documentation/#producerconfigs_bootstrap.servers
parameters:
  max_rest_seconds: {default: 60, meaning: "A change does not count if the client rested longer than this: it may be several programs, each started by a clock."}
  min_changes: {default: 3, least: 2, meaning: "Clients that changed less often are not listed: they were moved, and perhaps moved back."}
  min_requests: {default: 10, meaning: "Clients with fewer such requests each time, on average, are not listed: checks of a cluster have few."}
sampled: Metadata answers that show the cluster may be among the exchanges that are missing.
verdict: "{count client_id:client works/clients work} by turns in two clusters. {most changes}: {client_id} at {client_address}, {api_name} of {topic}, {changes:change/changes} between {clusters}. Check whether its bootstrap.servers names brokers of both, or whether two programs have its client id."
order: 20
only_if: FROM exchanges WHERE cluster_id <> '' HAVING count(DISTINCT cluster_id) > 1
frame:
  order_by: changes DESC, requests DESC, client_id, client_address, topic, api_name, connection_id
*/
WITH used AS (
    SELECT c.capture, e.client_id, e.client_address, e.software, k.cluster_id, c.broker, e.api_name, t.topic, e.connection_id,
        c.first_seen_us AS from_us, greatest(coalesce(c.closed_us, 0), c.last_seen_us) AS to_us, count(*) AS requests,
        min(e.exchange) AS exchange, min(e.seen_at) AS first_at, max(e.seen_at) AS last_at
    FROM client_exchanges AS e
    JOIN client_connections AS c ON c.connection_id = e.connection_id
    JOIN connection_clusters AS k ON k.connection_id = e.connection_id
    CROSS JOIN unnest(e.topics) AS t(topic)
    WHERE e.api_key IN (0, 1) AND e.role = 'client' AND len(e.error_codes) = 0 AND k.cluster_id IS NOT NULL AND NOT is_default_id(e.client_id)
    GROUP BY c.capture, e.client_id, e.client_address, e.software, k.cluster_id, c.broker, e.api_name, t.topic, e.connection_id,
        c.first_seen_us, c.closed_us, c.last_seen_us
), compared AS (
    SELECT *, CASE WHEN cluster_id <> lag(cluster_id) OVER of_client
            AND from_us - lag(to_us) OVER of_client <= $max_rest_seconds * 1000000 THEN 1 END AS change,
        cluster_id || ' (' || min_by(broker, from_us) OVER (PARTITION BY capture, client_id, client_address, api_name, topic, cluster_id) || ')' AS place
    FROM used
    WINDOW of_client AS (PARTITION BY capture, client_id, client_address, api_name, topic ORDER BY from_us, connection_id)
), connected AS (
    SELECT DISTINCT capture, client_id, client_address, cluster_id, connection_id, from_us, to_us FROM used
), together AS ( -- it has both at once
    SELECT DISTINCT a.capture, a.client_id, a.client_address
    FROM connected AS a
    JOIN connected AS b ON b.capture = a.capture AND b.client_id IS NOT DISTINCT FROM a.client_id AND b.client_address = a.client_address
        AND b.cluster_id <> a.cluster_id AND b.from_us < a.to_us AND a.from_us < b.to_us
)
SELECT c.client_id, c.client_address, max(c.software) AS software, c.api_name, c.topic,
    array_to_string(sorted_set(c.place), ' and ') AS clusters,
    count(c.change) AS changes, CAST(sum(c.requests) AS BIGINT) AS requests,
    min(c.first_at) AS first_at, max(c.last_at) AS last_at, min_by(c.connection_id, c.from_us) AS connection_id,
    min_by(c.exchange, c.from_us) AS exchange
FROM compared AS c
LEFT JOIN together AS t ON t.capture = c.capture AND t.client_id IS NOT DISTINCT FROM c.client_id AND t.client_address = c.client_address
WHERE t.client_address IS NULL
GROUP BY c.capture, c.client_id, c.client_address, c.api_name, c.topic
HAVING count(c.change) >= $min_changes AND sum(c.requests) >= $min_requests * (1 + count(c.change))
