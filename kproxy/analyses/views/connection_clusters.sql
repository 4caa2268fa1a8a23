/*
meaning: >-
  The cluster of each connection. cluster_id comes from Metadata or DescribeCluster: on the connection itself, else on others to
  the same broker (where it had one id after the other, the one it had then), of the same client, or in the same capture, if these
  show only one id; else it is null. cluster is that id, else the first address of the brokers in the same captures.
stored: true
*/
WITH said AS (
  SELECT connection_id, min(cluster_id) AS cluster_id
  FROM exchanges WHERE cluster_id <> ''
  GROUP BY connection_id HAVING count(DISTINCT cluster_id) = 1
), every AS (
  SELECT c.connection_id, c.capture, c.client_address, coalesce(c.client_ids[1], '') AS client_id,
    c.broker_address || ':' || CAST(c.broker_port AS VARCHAR) AS broker, s.cluster_id, c.first_seen_at, c.last_seen_at
  FROM connections c LEFT JOIN said s ON s.connection_id = c.connection_id
), of_broker_here AS (
  SELECT capture, broker, cluster_id, begins_at, min(begins_at) OVER (PARTITION BY capture, broker) = begins_at AS is_first,
    lead(begins_at) OVER (PARTITION BY capture, broker ORDER BY begins_at) AS until_at
  FROM (
    SELECT capture, broker, cluster_id, min(first_seen_at) AS begins_at, max(last_seen_at) AS ends_at,
      max(max(last_seen_at)) OVER (PARTITION BY capture, broker ORDER BY min(first_seen_at) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_at
    FROM every WHERE cluster_id IS NOT NULL
    GROUP BY capture, broker, cluster_id
  ) AS s
  QUALIFY bool_and(before_at IS NULL OR before_at < begins_at) OVER (PARTITION BY capture, broker)
), of_client AS (
  SELECT capture, client_address, client_id, min(cluster_id) AS cluster_id FROM every WHERE cluster_id IS NOT NULL
  GROUP BY capture, client_address, client_id HAVING count(DISTINCT cluster_id) = 1
), of_capture AS (
  SELECT capture, min(cluster_id) AS cluster_id FROM every WHERE cluster_id IS NOT NULL
  GROUP BY capture HAVING count(DISTINCT cluster_id) = 1
), of_broker AS (
  SELECT broker, min(cluster_id) AS cluster_id FROM every WHERE cluster_id IS NOT NULL
  GROUP BY broker HAVING count(DISTINCT cluster_id) = 1
), known AS (
  SELECT e.connection_id, e.capture, e.broker,
    coalesce(e.cluster_id, h.cluster_id, c.cluster_id, f.cluster_id, b.cluster_id) AS cluster_id
  FROM every e
  LEFT JOIN of_broker_here h ON h.capture = e.capture AND h.broker = e.broker
    AND (h.is_first OR e.first_seen_at >= h.begins_at) AND (h.until_at IS NULL OR e.first_seen_at < h.until_at)
  LEFT JOIN of_client c ON c.capture = e.capture AND c.client_address = e.client_address AND c.client_id = e.client_id
  LEFT JOIN of_capture f ON f.capture = e.capture
  LEFT JOIN of_broker b ON b.broker = e.broker
),
-- Brokers without a cluster id that share captures belong to one cluster, named by its least address; that is propagated twice.
pairs AS (
  SELECT DISTINCT capture, broker FROM known WHERE cluster_id IS NULL
), captures_1 AS (
  SELECT capture, min(broker) AS least FROM pairs GROUP BY capture
), brokers_1 AS (
  SELECT p.broker, min(c.least) AS least FROM pairs p JOIN captures_1 c ON c.capture = p.capture GROUP BY p.broker
), captures_2 AS (
  SELECT p.capture, min(b.least) AS least FROM pairs p JOIN brokers_1 b ON b.broker = p.broker GROUP BY p.capture
), brokers_2 AS (
  SELECT p.broker, min(c.least) AS least FROM pairs p JOIN captures_2 c ON c.capture = p.capture GROUP BY p.broker
)
SELECT k.connection_id, k.cluster_id, coalesce(k.cluster_id, 'brokers at ' || b.least) AS cluster
FROM known k LEFT JOIN brokers_2 b ON b.broker = k.broker
