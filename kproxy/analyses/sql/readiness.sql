/*
id: readiness
title: Who survives an upgrade of the brokers, and of the clients
severity: info
meaning: >-
  Whether brokers of the release answer the requests of each client, and whether clients of that release can talk to each captured
  broker. Only captured requests are judged.
columns:
  verdict: "will break: it asks for what the release does not answer, and cannot ask for more; may break: its library is not known, or the capture does not show enough; fine: what it asked for is answered, or its library is known to ask for more; inside the cluster: brokers of the release do not ask each other for this, and it is upgraded with them"
  asker: "client; broker to broker: traffic inside the cluster, which is upgraded with the brokers; broker: whether clients of the release can talk to it, client_id is its address"
  client_id: client id; for a broker its address
  software_version: ""
  reason: why, in words
  software: ""
  breaks_first: the refused request that it sent first
  problems: each API and version that is refused
  addresses: client addresses
  requests: requests that were judged
  is_judged: false for traffic inside the cluster
  principal: ""
  inferred: ""
  target: Kafka release that the brokers would have
  apis: number of APIs that were judged
  severity: ""
action: Upgrade clients that will break before the brokers; ask the owners of those that may break which library they use.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-896
parameters:
  target: {default: "", meaning: "A Kafka release: 4.0, 3.9.1, 4 or 4.x for the newest of them; empty: the newest that is known, and nothing is worse than a notice, as nobody asked."}
sampled: Requests that the release refuses may be among the exchanges that are missing.
verdict: "[{rows where asker=release:?}{reason:200}|[{rows where verdict=will break} of [{rows where asker=broker:?}{rows where is_judged=true} judged ({rows where asker=client:client/clients}, {rows where asker=broker:broker/brokers})|{rows where is_judged=true:judged client/judged clients}] will break with Kafka {target}[, {rows where verdict=may break} may]; first: {client_id}[ ({software})], {reason:200}|[{rows where verdict=may break} of [{rows where asker=broker:?}{rows where is_judged=true} judged ({rows where asker=client:client/clients}, {rows where asker=broker:broker/brokers})|{rows where is_judged=true:judged client/judged clients}] may break with Kafka {target}; first: {client_id}[ ({software})], {reason:200}|fine with Kafka {target}, as far as seen: {rows where asker=client:client/clients}[ and {rows where asker=broker:broker/brokers}]]]]"
order: 38
gate: critical
*/
WITH target AS (
  SELECT max_by(release, release_order) AS release, max(release_order) AS release_order
  FROM releases
  WHERE coalesce($target, '') = ''
    OR release = $target
    OR $target LIKE (release || '.%')
    OR release LIKE (regexp_replace($target, '[.]x$', '', 'g') || '.%')
), answered AS (  -- versions that brokers of the target answer
  SELECT v.api_key, v.api_name, v.min_version AS lowest, v.max_version AS highest
  FROM api_versions v JOIN target t ON v.release = t.release
), known AS (  -- APIs of any release; other APIs are not judged
  SELECT api_key, min_by(r.release, r.release_order) AS first_release, min(r.release_order) AS first_order
  FROM api_versions v JOIN releases r ON r.release = v.release
  GROUP BY api_key
),
-- The versions of each API that each client used: bound_low is the lowest that the release refuses and the client would ask for again.
who AS (
  SELECT client, client_id, principal, software, software_version, min(inferred) AS inferred, min(role) AS role,
    list(DISTINCT client_address) AS addresses
  FROM clients
  GROUP BY client, client_id, principal, software, software_version
), facts AS (
  SELECT u.client, u.api_key,
    max(u.api_name) AS api_name,
    max(u.api_version) AS most,
    sum(u.requests) AS requests,
    min(u.first_micros) AS first_micros,
    min(CASE WHEN u.api_version < r.lowest AND u.bound < r.lowest THEN u.api_version END) AS bound_low,
    sum(CASE WHEN u.api_version < r.lowest AND u.bound < r.lowest THEN u.requests END) AS bound_requests,
    max(CASE WHEN u.api_version < r.lowest AND u.bound < r.lowest THEN u.offered END) AS bound_offered,
    max(CASE WHEN u.api_version < r.lowest AND u.bound IS NULL THEN u.api_version END) AS held_low,
    max(CASE WHEN u.api_version < r.lowest AND u.bound IS NULL THEN u.offered END) AS held_offered,
    max(CASE WHEN u.api_version < r.lowest THEN u.api_version END) AS low,
    max(u.able) AS able, max(u.floor) AS floor, min(u.negotiates) AS negotiates,
    t.release AS target, t.release_order AS target_order, k.first_release, k.first_order, r.lowest AS target_lowest,
    r.highest AS target_highest,
    r.api_key IS NOT NULL AS exists
  FROM used_versions u
  CROSS JOIN target t
  JOIN known k ON k.api_key = u.api_key
  LEFT JOIN answered r ON r.api_key = u.api_key
  WHERE u.api_key <> 18
  GROUP BY u.client, u.api_key, t.release, t.release_order, k.first_release, k.first_order, r.lowest, r.highest, r.api_key
), judged AS (
  SELECT f.*, w.client_id, w.principal, w.software, w.software_version, w.inferred, w.role, w.addresses,
    CASE
      -- optional to clients, which ask for them where the broker offers them: OffsetForLeaderEpoch, SaslAuthenticate (SaslHandshake v0
      -- goes before it), DescribeCluster and DescribeTopicPartitions (Metadata instead), telemetry
      WHEN NOT exists AND first_order > target_order AND negotiates <> 'no' AND f.api_key IN (23, 36, 60, 71, 72, 75) THEN 'does without'
      WHEN NOT exists AND first_order > target_order THEN 'is newer'
      WHEN NOT exists THEN 'is gone'
      WHEN bound_low IS NOT NULL AND negotiates = 'no' THEN 'fixed, too old'
      WHEN bound_low IS NOT NULL AND able < target_lowest THEN 'library too old'
      WHEN bound_low IS NOT NULL THEN 'own limit'
      WHEN negotiates = 'no' AND most > target_highest THEN 'fixed, too new'
      WHEN most > target_highest AND floor > target_highest THEN 'too new'
      WHEN held_low IS NOT NULL THEN 'held down'
      WHEN most > target_highest AND (floor IS NOT NULL OR able > target_highest) THEN 'steps down'
      WHEN most > target_highest THEN 'may step down'
      WHEN low IS NOT NULL THEN 'library goes higher'
      ELSE 'answered'
    END AS finding
  FROM facts f
  JOIN who w ON w.client = f.client
), worded AS (
  SELECT j.*,
    CASE
      WHEN finding IN ('is gone', 'fixed, too old', 'fixed, too new', 'too new', 'library too old', 'own limit') THEN 2
      WHEN finding IN ('is newer', 'may step down', 'held down') THEN 1
      ELSE 0
    END AS badness,
    
      api_name || ' v' || CAST(version AS VARCHAR) ||
      CASE finding
        WHEN 'is newer' THEN ': Kafka ' || target || ' does not have this API, which came with ' || first_release
        WHEN 'does without' THEN ': Kafka ' || target || ' does not have this API, and clients do without it'
        WHEN 'is gone' THEN ': Kafka ' || target || ' no longer has this API'
        WHEN 'fixed, too old' THEN 
          ': Kafka ' || target || ' answers v' || CAST(target_lowest AS VARCHAR) || ' and later; the client does not negotiate'
        WHEN 'fixed, too new' THEN 
          ': Kafka ' || target || ' answers up to v' || CAST(target_highest AS VARCHAR) || '; the client does not negotiate'
        WHEN 'too new' THEN 
          ': Kafka ' || target || ' answers up to v' || CAST(target_highest AS VARCHAR) || ', the client speaks v' || CAST(floor AS VARCHAR) ||
          ' and later'
        WHEN 'may step down' THEN 
          ': Kafka ' || target || ' answers up to v' || CAST(target_highest AS VARCHAR) || '; the client has to step down'
        WHEN 'library too old' THEN 
          ': Kafka ' || target || ' answers v' || CAST(target_lowest AS VARCHAR) || ' and later; the library speaks up to v' || CAST(able AS VARCHAR)
        WHEN 'own limit' THEN 
          ': Kafka ' || target || ' answers v' || CAST(target_lowest AS VARCHAR) || ' and later; the broker here offered up to v' ||
          CAST(bound_offered AS VARCHAR) || ', and the client asked for no more in ' || CAST(bound_requests AS VARCHAR) ||
          CASE WHEN bound_requests = 1 THEN ' request' ELSE ' requests' END
        WHEN 'held down' THEN 
          ': Kafka ' || target || ' answers v' || CAST(target_lowest AS VARCHAR) || ' and later; ' ||
          CASE
            WHEN held_offered IS NULL THEN 'what the broker here offers was not seen'
            WHEN held_offered >= target_lowest THEN 'the broker here offers up to v' || CAST(held_offered AS VARCHAR)
            ELSE 'the broker here offers no more than v' || CAST(held_offered AS VARCHAR)
          END ||
          ', and what the library can is not known'
        WHEN 'library goes higher' THEN 
          ': held down by the broker here; the library ' ||
          CASE WHEN able = 32767 THEN 'is newer than what kproxy knows' ELSE 'speaks up to v' || CAST(able AS VARCHAR) END
        ELSE ' is answered'
      END ||
      CASE
        WHEN api_key = 0 AND version < 3 AND target_lowest >= 3 THEN ' (message format 0 or 1, which Kafka ' || target || ' does not take: KIP-724)'
        WHEN api_key = 1 AND version < 4 AND target_lowest >= 4 THEN ' (message format 0 or 1, which Kafka ' || target || ' does not send: KIP-724)'
        ELSE ''
      END
     AS words
  FROM (SELECT *, coalesce(bound_low, held_low, low, most) AS version FROM judged) j
), ranked AS (
  SELECT w.*, max(badness) OVER (PARTITION BY client) AS worst FROM worded w
), client_rows AS (
  SELECT
    CASE WHEN min(d.role) = 'broker' THEN 'broker to broker' ELSE 'client' END AS asker,
    d.client_id, d.principal,
    list_sort(array_distinct(flatten(list(d.addresses)))) AS addresses,
    d.software, d.software_version,
    min(d.inferred) AS inferred,
    d.worst AS badness,
    min_by(CASE WHEN d.badness = d.worst THEN d.api_name || ' v' || CAST(d.version AS VARCHAR) END,
      CASE WHEN d.badness = d.worst AND d.worst > 0 THEN {'first_micros': d.first_micros, 'api_key': d.api_key} END) AS breaks_first,
    coalesce(
      min_by(CASE WHEN d.badness = d.worst THEN d.words END,
        CASE WHEN d.badness = d.worst AND d.worst > 0 THEN {'first_micros': d.first_micros, 'api_key': d.api_key} END),
      min_by(CASE WHEN d.finding = 'library goes higher' THEN d.words END,
        CASE WHEN d.finding = 'library goes higher' THEN {'first_micros': d.first_micros, 'api_key': d.api_key} END),
      'every API that it asked for is answered (' || CAST(count(CASE WHEN d.finding <> 'does without' THEN 1 END) AS VARCHAR) || ')'
    ) AS reason,
    sorted_set(CASE WHEN d.badness > 0 THEN d.words END) AS problems,
    d.target,
    CAST(count(*) AS BIGINT) AS apis,
    CAST(sum(d.requests) AS BIGINT) AS requests
  FROM ranked d
  GROUP BY d.client, d.client_id, d.principal, d.software, d.software_version, d.worst, d.target
),
-- Brokers behind Java clients of the target: the APIs that clients ask them for, as far as they were seen to offer versions.
broker_asked AS (
  SELECT n.node, u.api_key, min(u.broker_address) AS address,
    max(u.api_name) AS api_name,
    min(o.highest) AS highest,
    sum(u.requests) AS requests,
    min(u.first_micros) AS first_micros
  FROM used_versions u
  JOIN who w ON w.client = u.client
  JOIN broker_versions o
    ON o.broker_address = u.broker_address AND o.broker_port = u.broker_port AND o.api_key = u.api_key
  JOIN (SELECT DISTINCT c.broker_address, c.broker_port, k.node
    FROM connections c JOIN client_connections k ON k.connection_id = c.connection_id) n
    ON n.broker_address = u.broker_address AND n.broker_port = u.broker_port
  WHERE w.role = 'client' AND u.api_key NOT IN (17, 18, 36)
  GROUP BY n.node, u.api_key
), broker_judged AS (
  SELECT b.*,
    t.release AS target, r.lowest AS client_lowest,
    CASE WHEN b.highest < r.lowest THEN 2 ELSE 0 END AS badness
  FROM broker_asked b
  CROSS JOIN target t
  LEFT JOIN answered r ON r.api_key = b.api_key
), broker_words AS (
  SELECT j.*,
    max(j.badness) OVER (PARTITION BY j.node) AS worst,
    
      api_name || ': Java clients of ' || target || ' speak v' || CAST(client_lowest AS VARCHAR) || ' and later; the broker offers no more than v' ||
      CAST(highest AS VARCHAR)
     AS words
  FROM broker_judged j
), broker_rows AS (
  SELECT 'broker' AS asker,
    node AS client_id,
    CAST(NULL AS VARCHAR) AS principal,
    sorted_set(address) AS addresses,
    CAST(NULL AS VARCHAR) AS software,
    CAST(NULL AS VARCHAR) AS software_version,
    false AS inferred, worst AS badness,
    min_by(CASE WHEN badness = worst THEN api_name END,
      CASE WHEN badness = worst AND worst > 0 THEN {'first_micros': first_micros, 'api_key': api_key} END) AS breaks_first,
    coalesce(
      min_by(CASE WHEN badness = worst THEN words END,
        CASE WHEN badness = worst AND worst > 0 THEN {'first_micros': first_micros, 'api_key': api_key} END),
      'it speaks every API that it was asked for as Java clients of ' || target || ' do (' || CAST(count(*) AS VARCHAR) || ')'
    ) AS reason,
    sorted_set(CASE WHEN badness > 0 THEN words END) AS problems,
    target,
    CAST(count(*) AS BIGINT) AS apis,
    CAST(sum(requests) AS BIGINT) AS requests
  FROM broker_words
  GROUP BY node, worst, target
), unknown_target AS (
  SELECT 'release' AS asker,
    $target AS client_id,
    CAST(NULL AS VARCHAR) AS principal,
    sorted_set(CAST(NULL AS VARCHAR)) AS addresses,
    CAST(NULL AS VARCHAR) AS software,
    CAST(NULL AS VARCHAR) AS software_version,
    false AS inferred, 1 AS badness,
    CAST(NULL AS VARCHAR) AS breaks_first,
    'no such release; known are ' || min_by(release, release_order) || ' to ' || max_by(release, release_order) AS reason,
    sorted_set(CAST(NULL AS VARCHAR)) AS problems,
    $target AS target,
    CAST(0 AS BIGINT) AS apis,
    CAST(0 AS BIGINT) AS requests
  FROM releases
  WHERE (SELECT release FROM target) IS NULL
  HAVING count(*) > 0
)
SELECT asker, client_id, principal, addresses, software, software_version, inferred,
  CASE WHEN badness > 0 AND asker = 'broker to broker' THEN 'inside the cluster'
    WHEN badness = 2 THEN 'will break' WHEN badness = 1 THEN 'may break' ELSE 'fine' END AS verdict,
  breaks_first, reason, problems, target, apis, requests,
  CASE WHEN asker = 'broker to broker' OR badness = 0 THEN 'info'
    WHEN coalesce($target, '') = '' THEN CASE WHEN badness = 2 THEN 'notice' ELSE 'info' END -- an upgrade that nobody plans harms nobody
    WHEN badness = 2 THEN 'critical' ELSE 'warning' END AS severity,
  asker <> 'broker to broker' AS is_judged
FROM (
  SELECT * FROM client_rows WHERE target IS NOT NULL
  UNION ALL
  SELECT * FROM broker_rows WHERE target IS NOT NULL
  UNION ALL
  SELECT * FROM unknown_target
) every
ORDER BY CASE WHEN asker = 'broker to broker' THEN 0 ELSE badness END DESC, asker DESC, requests DESC, client_id, principal, software, software_version
