/*
meaning: >-
  Connections with SASL that a broker closed with a request open, where those of the client to this broker (connections) lasted nearly the
  same time: the login ended. seconds is that of the shortest, longest_seconds that of the longest.
stored: true
*/
SELECT *
FROM (
  SELECT connection_id, closed_us - first_seen_us AS lasted_us, count(*) OVER of_client AS connections,
    min(closed_us - first_seen_us) OVER of_client // 1000000 AS seconds, max(closed_us - first_seen_us) OVER of_client // 1000000 AS longest_seconds
  FROM client_connections
  WHERE sasl_mechanism IS NOT NULL AND closed_by = 'broker' AND unanswered > 0 AND responses > 4 AND closed_us IS NOT NULL
  WINDOW of_client AS (PARTITION BY client_id, client_address, cluster, broker, sasl_mechanism, user_name)
) AS ended
WHERE seconds >= 2 AND longest_seconds * 2 <= seconds * 3
