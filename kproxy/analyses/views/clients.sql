/*
meaning: >-
  The client of each connection. role is broker for brokers and controllers that talk to each other. software is as the client names
  itself in ApiVersions (KIP-511). If inferred is true, it was taken from another connection of this client id and address, from a
  default client id, or from the API versions that the client used (client_versions); evidence says from which.
  library and library_order say which line of client_versions knows the software: confluent-kafka-python is librdkafka.
  client is the same for connections with the same client id, principal and software.
stored: true
*/
WITH conn AS (
  SELECT connection_id, capture,
    coalesce(list_filter(client_ids, lambda each: each <> '')[1], client_ids[1]) AS client_id,
    client_address, broker_address, broker_port, first_seen_at,
    coalesce(user_name, tls_client_certificate) AS principal,
    client_software_name AS said_name, client_software_version AS said_version
  FROM connections
),
-- Brokers and controllers: by requests that only they make, else by the ids that they give themselves.
inter_broker AS (
  SELECT connection_id
  FROM exchanges
  WHERE replica_id >= 0
    OR api_key IN (4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 83, 84, 85, 86, 87)
    OR (api_key = 24 AND api_version >= 4)
  GROUP BY connection_id
), works AS (  -- requests that only clients send
  SELECT connection_id FROM exchanges
  WHERE api_key IN (0, 8, 9, 11, 12, 14, 26, 28, 68, 76, 78, 79, 88) GROUP BY connection_id
), marked AS (
  SELECT c.*,
    w.connection_id IS NOT NULL AS works,
    max(CASE WHEN b.connection_id IS NOT NULL THEN 1 ELSE 0 END) OVER (PARTITION BY c.client_address, c.client_id) AS of_broker,
    b.connection_id IS NOT NULL AS is_broker
  FROM conn c
  LEFT JOIN inter_broker b ON b.connection_id = c.connection_id
  LEFT JOIN works w ON w.connection_id = c.connection_id
), roles AS (
  SELECT m.*,
    CASE
      WHEN is_broker THEN 'broker'
      WHEN works THEN 'client'
      WHEN of_broker = 1 AND client_id IS NOT NULL THEN 'broker' -- another connection of a broker
      WHEN regexp_matches(client_id, '^(broker-[0-9]+-.*|raft-client-[0-9]+|controller-[0-9]+-.*|AddPartitionsManager-client-[0-9]+)$')
        THEN 'broker'
      ELSE 'client'
    END AS role
  FROM marked m
),
-- Software that other connections of the client name: in the same capture, or to the same broker in another one. Not for a connection
-- whose ApiVersions request has no name: software that has a name sends it in each ApiVersions request, unless the broker is too old for it.
named AS (
  SELECT 'capture ' || capture AS scope, client_address, coalesce(client_id, '') AS id, said_name, said_version
  FROM conn
  WHERE said_name IS NOT NULL
  UNION ALL
  SELECT 'broker ' || broker_address || ':' || CAST(broker_port AS VARCHAR), client_address, coalesce(client_id, ''), said_name,
    said_version
  FROM conn
  WHERE said_name IS NOT NULL
), neighbours AS (
  SELECT scope, client_address, id, min(said_name) AS name, min(said_version) AS version
  FROM named
  GROUP BY scope, client_address, id
  HAVING count(DISTINCT said_name) = 1 AND count(DISTINCT coalesce(said_version, '')) = 1
), too_old AS (
  SELECT DISTINCT c.broker_address, c.broker_port
  FROM exchanges e
  JOIN conn c ON c.connection_id = e.connection_id
  WHERE e.api_key = 18 AND e.api_version >= 3 AND e.error_name = 'UNSUPPORTED_VERSION'
), nameless AS (
  SELECT e.connection_id FROM exchanges e
  JOIN conn c ON c.connection_id = e.connection_id
  LEFT JOIN too_old o ON o.broker_address = c.broker_address AND o.broker_port = c.broker_port
  WHERE e.api_key = 18 AND e.request_at IS NOT NULL AND o.broker_address IS NULL
  GROUP BY e.connection_id
  HAVING max(e.api_version) < 3
),
-- Fingerprints: the API versions of each unnamed client, compared with those of libraries. By capture, as two captures
-- can show different machines with the same addresses and default client ids.
used AS (
  SELECT c.capture, c.client_address,
    coalesce(c.client_id, '') AS id,
    e.api_key, e.api_version,
    min(o.highest) AS offered,
    max(e.api_version) OVER (PARTITION BY c.capture, c.client_address, coalesce(c.client_id, ''), e.api_key) AS newest
  FROM roles c
  JOIN exchanges e ON e.connection_id = c.connection_id
  LEFT JOIN broker_versions o
    ON o.broker_address = c.broker_address AND o.broker_port = c.broker_port AND o.api_key = e.api_key
  WHERE c.said_name IS NULL AND c.role = 'client' AND e.request_at IS NOT NULL AND e.api_version IS NOT NULL
  GROUP BY c.capture, c.client_address, coalesce(c.client_id, ''), e.api_key, e.api_version
), used_apis AS (
  SELECT capture, client_address, id,
    count(DISTINCT api_key) AS apis,
    array_to_string(sorted_set(concat_ws(':', CAST(api_key AS VARCHAR), CAST(api_version AS VARCHAR), CAST(newest AS VARCHAR),
      coalesce(CAST(offered AS VARCHAR), '-'))), ',') AS pattern
  FROM used
  GROUP BY capture, client_address, id
), used_patterns AS (  -- ten thousand clients have few different sets of versions: each set is compared once
  SELECT DISTINCT a.pattern, u.api_key, u.api_version, u.offered, u.newest
  FROM used u
  JOIN used_apis a ON a.capture = u.capture AND a.client_address = u.client_address AND a.id = u.id
), fitting_patterns AS (
  SELECT u.pattern, v.library, v.first_version, v.last_version, v.first_order, v.last_order,
    min(v.negotiates) AS negotiates,
    count(DISTINCT u.api_key) AS known,
    count(DISTINCT CASE WHEN u.api_key NOT IN (17, 18, 36) THEN u.api_key END) AS telling
  FROM used_patterns u
  JOIN client_versions v ON v.api_key = u.api_key
  GROUP BY u.pattern, v.library, v.first_version, v.last_version, v.first_order, v.last_order
  HAVING min(
    CASE
      WHEN u.api_version BETWEEN v.lowest AND v.highest THEN 1
      WHEN u.api_key = 18 AND u.api_version < u.newest THEN 1 -- asked again with a lower version
      WHEN u.api_key <> 18 AND v.negotiates AND u.api_version < v.lowest AND u.api_version = u.offered THEN 1
      ELSE 0
    END
  ) = 1
), habits AS ( -- of clients that were seen from their start
  SELECT c.capture, c.client_address, coalesce(c.client_id, '') AS id,
    -- for ApiVersions: no library that negotiates. Scala's clients number their requests over their connections
    bool_and(NOT o.negotiates) AND min_by(o.begins, c.first_seen_at) AS never_asks,
    bool_and(o.begins AND o.counts_from = 1) AS counts_from_one -- Java's begins at 0, and counts on over its connections
  FROM conn c
  JOIN opened_connections o ON o.connection_id = c.connection_id
  GROUP BY c.capture, c.client_address, coalesce(c.client_id, '')
), fits AS (
  SELECT a.capture, a.client_address, a.id, a.apis, f.library, f.first_version, f.last_version, f.first_order, f.last_order, f.known, f.telling
  FROM used_apis a
  JOIN fitting_patterns f ON f.pattern = a.pattern
  LEFT JOIN habits h ON h.capture = a.capture AND h.client_address = a.client_address AND h.id = a.id
  WHERE NOT (coalesce(h.never_asks, false) AND f.negotiates)
    AND NOT (coalesce(h.counts_from_one, false) AND f.library = 'apache-kafka-java') -- kafka-python that is told a release has the same versions
), hinted AS (
  SELECT f.*,
    CASE
      WHEN f.library = 'librdkafka' AND f.id = 'rdkafka' THEN 1
      WHEN f.library IN ('sarama', 'kafkajs', 'kgo') AND f.id = f.library THEN 1
      WHEN f.library = 'kafka-node' AND f.id LIKE 'kafka-node-client%' THEN 1
      WHEN f.library IN ('kafka-python', 'aiokafka') AND f.id LIKE (f.library || '-%') THEN 1
      WHEN f.library = 'kafka-go' AND f.id LIKE '%(github.com/segmentio/kafka-go)' THEN 1
      WHEN f.library = 'apache-kafka-java' AND regexp_matches(f.id, '^(producer|consumer|adminclient)-([^ ]+-)?[0-9]+$') THEN 1
      ELSE 0
    END AS is_default_id
  FROM fits f
), ranked AS (
  SELECT h.*,
    rank() OVER (PARTITION BY h.capture, h.client_address, h.id ORDER BY h.is_default_id DESC, h.known DESC) AS place
  FROM hinted h
  WHERE (h.telling >= 3 OR (h.is_default_id = 1 AND h.telling >= 1)) AND h.known + 1 >= h.apis
), fingerprints AS (
  SELECT capture, client_address, id,
    array_to_string(sorted_set(library), ' or ') AS name,
    CASE
      WHEN count(DISTINCT library) > 1 THEN CAST(NULL AS VARCHAR)
      WHEN min_by(first_version, first_order) = max_by(coalesce(last_version, ''), last_order) THEN min_by(first_version, first_order)
      WHEN max_by(coalesce(last_version, ''), last_order) = '' THEN min_by(first_version, first_order) || ' or later'
      ELSE min_by(first_version, first_order) || ' to ' || max_by(coalesce(last_version, ''), last_order)
    END AS version,
    CASE WHEN count(DISTINCT library) = 1 THEN min(library) END AS library,
    CASE WHEN count(DISTINCT library) = 1 THEN min(first_order) END AS library_order
  FROM ranked
  WHERE place = 1
  GROUP BY capture, client_address, id
),
known AS (
  SELECT c.*,
    -- kafka-python-2.0.2, app@host (github.com/segmentio/kafka-go)
    CASE
      WHEN c.client_id LIKE '%(github.com/segmentio/kafka-go)' THEN 'kafka-go'
      ELSE nullif(regexp_extract(c.client_id, '^(kafka-python|aiokafka)-[0-9]+[.][0-9]+[.][0-9]+$', 1), '')
    END AS default_name,
    nullif(regexp_extract(c.client_id, '^(kafka-python|aiokafka)-([0-9]+[.][0-9]+[.][0-9]+)$', 2), '') AS default_version,
    CASE WHEN l.connection_id IS NULL THEN coalesce(n.name, b.name) END AS near_name,
    CASE WHEN l.connection_id IS NULL THEN CASE WHEN n.name IS NOT NULL THEN n.version ELSE b.version END END AS near_version
  FROM roles c
  LEFT JOIN nameless l ON l.connection_id = c.connection_id
  LEFT JOIN neighbours n
    ON n.scope = ('capture ' || c.capture) AND n.client_address = c.client_address AND n.id = coalesce(c.client_id, '')
  LEFT JOIN neighbours b
    ON b.scope = ('broker ' || c.broker_address || ':' || CAST(c.broker_port AS VARCHAR))
    AND b.client_address = c.client_address AND b.id = coalesce(c.client_id, '')
), found AS (
  SELECT c.connection_id, c.client_id, c.client_address, c.broker_address, c.broker_port, c.role, c.principal,
    coalesce(c.said_name, c.near_name, c.default_name, f.name) AS software,
    CASE
      WHEN c.said_name IS NOT NULL THEN c.said_version
      WHEN c.near_name IS NOT NULL THEN c.near_version
      WHEN c.default_name IS NOT NULL THEN c.default_version
      ELSE f.version
    END AS software_version,
    CASE
      WHEN c.said_name IS NOT NULL THEN 'ApiVersions'
      WHEN c.near_name IS NOT NULL THEN 'another connection'
      WHEN c.default_name IS NOT NULL THEN 'client id'
      WHEN f.name IS NOT NULL THEN 'API versions'
    END AS evidence,
    f.library AS fitting, f.library_order AS fitting_order
  FROM known c
  LEFT JOIN fingerprints f ON f.capture = c.capture AND f.client_address = c.client_address AND f.id = coalesce(c.client_id, '')
), parts AS (
  SELECT f.*,
    CASE
      WHEN evidence = 'API versions' THEN fitting
      WHEN regexp_matches(software_version, 'rdkafka-[0-9]') OR software LIKE '%rdkafka%' THEN 'librdkafka'
      WHEN software = 'franz-go' THEN 'kgo'
      ELSE software
    END AS library,
    CASE
      WHEN regexp_matches(software_version, 'rdkafka-[0-9]') THEN regexp_extract(software_version, 'rdkafka-([0-9.]+)', 1)
      ELSE regexp_extract(software_version, '([0-9]+[.][0-9.]+)', 1)
    END AS number
  FROM found f
), numbers AS (
  SELECT p.*,
    try_cast(nullif(split_part(number, '.', 1), '') AS BIGINT) AS major,
    try_cast(nullif(split_part(number, '.', 2), '') AS BIGINT) AS minor,
    try_cast(nullif(split_part(number, '.', 3), '') AS BIGINT) AS patch
  FROM parts p
)
SELECT connection_id,
  concat_ws(' / ', coalesce(client_id, '-'), coalesce(principal, '-'), coalesce(software, '-'), coalesce(software_version, '-'))
    AS client,
  client_id, client_address, broker_address, broker_port, role, principal, software, software_version,
  software IS NOT NULL AND evidence <> 'ApiVersions' AS inferred,
  evidence, library,
  CASE
    WHEN evidence = 'API versions' THEN fitting_order
    -- Confluent's builds have their own numbers: 7.6.0-ccs is Kafka 3.6
    WHEN major >= 1000 OR minor >= 1000 THEN NULL
    WHEN library = 'apache-kafka-java' AND regexp_matches(software_version, '-(ccs|ce)') THEN CASE major
      WHEN 5 THEN 2000000 + minor * 1000
      WHEN 6 THEN 2006000 + minor * 1000
      ELSE (major - 4) * 1000000 + minor * 1000
    END
    ELSE major * 1000000 + minor * 1000 + CASE WHEN patch < 1000 THEN patch ELSE 0 END
  END AS library_order
FROM numbers
