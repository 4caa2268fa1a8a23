/*
id: explain
title: The configuration of each client, as its traffic shows it
severity: info
meaning: >-
  The settings that each client uses, worked out from its requests. Names are those of Java's clients, and in parentheses librdkafka's
  where they differ.
columns:
  client_id: ""
  setting: name of the setting
  value: its value
  certainty: "sent: the client sends the value; at least: the traffic shows only a bound; inferred: it follows from behaviour"
  evidence: requests that show it
  others: "values that were sent less often: several applications share the client id, or the setting was changed"
  principal: ""
  software: ""
  software_version: ""
  addresses: ""
action: Compare with what you think you configured.
reference: https://kafka.apache.org/documentation/#configuration
parameters:
  client: {default: "", meaning: Only this client id.}
needs: [exchanges, record_batches, offsets, connections, clients]
verdict: "{count client_id:client/clients} explained by {rows} settings; ask for one with the parameter client"
order: 70
default: false
*/
WITH requests AS (
  SELECT
    c.client,
    e.*,
    unix_micros(e.request_at) AS micros
  FROM exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE c.role = 'client' AND e.request_at IS NOT NULL AND (:client = '' OR c.client_id = :client)
),
-- Values that requests carry: one row for each, counted.
sent AS (
  SELECT client, said.setting AS setting, said.value AS value, said.api AS api, count(*) AS times
  FROM requests LATERAL VIEW explode(array(
    named_struct('api', 'Produce', 'setting', 'acks', 'value',
      CASE WHEN api_key = 0 THEN CASE acks WHEN -1 THEN 'all' ELSE CAST(acks AS STRING) END END),
    named_struct('api', 'Produce', 'setting', 'request.timeout.ms', 'value', CASE WHEN api_key = 0 THEN CAST(timeout_ms AS STRING) END),
    named_struct('api', 'InitProducerId', 'setting', 'transactional.id', 'value', CASE WHEN api_key = 22 THEN transactional_id END),
    named_struct('api', 'InitProducerId', 'setting', 'transaction.timeout.ms', 'value',
      CASE WHEN api_key = 22 AND transactional_id IS NOT NULL THEN CAST(timeout_ms AS STRING) END),
    named_struct('api', 'Fetch', 'setting', 'fetch.min.bytes', 'value', CASE WHEN api_key = 1 THEN CAST(min_bytes AS STRING) END),
    named_struct('api', 'Fetch', 'setting', 'fetch.max.wait.ms (fetch.wait.max.ms)', 'value',
      CASE WHEN api_key = 1 THEN CAST(max_wait_ms AS STRING) END),
    named_struct('api', 'Fetch', 'setting', 'fetch.max.bytes', 'value', CASE WHEN api_key = 1 THEN CAST(max_bytes AS STRING) END),
    named_struct('api', 'Fetch', 'setting', 'isolation.level', 'value',
      CASE WHEN api_key = 1 THEN CASE isolation_level WHEN 1 THEN 'read_committed' WHEN 0 THEN 'read_uncommitted' END END),
    named_struct('api', 'ShareFetch', 'setting', 'fetch.min.bytes', 'value', CASE WHEN api_key = 78 THEN CAST(min_bytes AS STRING) END),
    named_struct('api', 'ShareFetch', 'setting', 'fetch.max.wait.ms', 'value', CASE WHEN api_key = 78 THEN CAST(max_wait_ms AS STRING) END),
    named_struct('api', 'JoinGroup', 'setting', 'session.timeout.ms', 'value', CASE WHEN api_key = 11 THEN CAST(session_timeout_ms AS STRING) END),
    named_struct('api', 'JoinGroup', 'setting', 'max.poll.interval.ms', 'value',
      CASE WHEN api_key = 11 THEN CAST(rebalance_timeout_ms AS STRING) END),
    named_struct('api', 'ConsumerGroupHeartbeat', 'setting', 'max.poll.interval.ms', 'value',
      CASE WHEN api_key = 68 AND rebalance_timeout_ms >= 0 THEN CAST(rebalance_timeout_ms AS STRING) END),
    named_struct('api', 'JoinGroup', 'setting', 'partition.assignment.strategy', 'value',
      CASE WHEN api_key = 11 AND size(protocols) > 0 THEN array_join(protocols, ', ') END),
    named_struct('api', 'ConsumerGroupHeartbeat', 'setting', 'group.remote.assignor', 'value',
      CASE WHEN api_key = 68 AND size(protocols) > 0 THEN nullif(array_join(protocols, ', '), '') END),
    named_struct('api', coalesce(api_name, ''), 'setting', 'group.protocol', 'value',
      CASE api_key WHEN 11 THEN 'classic' WHEN 68 THEN 'consumer' WHEN 76 THEN 'share' WHEN 88 THEN 'streams' END),
    named_struct('api', coalesce(api_name, ''), 'setting', 'group.id', 'value', CASE WHEN api_key IN (11, 68, 76, 88) THEN group_id END),
    named_struct('api', coalesce(api_name, ''), 'setting', 'group.instance.id', 'value',
      CASE WHEN api_key IN (11, 68, 88) THEN group_instance_id END)
  )) said AS said
  WHERE said.value IS NOT NULL
  GROUP BY client, said.setting, said.value, said.api
),
sent_best AS (
  SELECT
    client,
    setting,
    max_by(value, struct(times, value)) AS value,
    'sent' AS certainty,
    concat(CAST(max(times) AS STRING), ' of ', CAST(sum(times) AS STRING), ' ', array_join(sort_array(collect_set(api)), ', '), ' requests')
      AS evidence,
    sort_array(collect_list(struct(-times AS rank, value))) AS all_values
  FROM sent
  GROUP BY client, setting
),
-- Producers, by their batches.
batches AS (
  SELECT
    c.client,
    coalesce(b.codec, 'unknown') AS codec,
    b.size,
    b.count,
    b.producer_id,
    b.is_transactional,
    b.magic,
    CASE WHEN b.magic = 2 AND b.timestamp_type = 'CreateTime' THEN unix_micros(b.max_timestamp) - unix_micros(b.base_timestamp) END AS spread
  FROM record_batches b
  JOIN clients c ON c.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.magic IS NOT NULL AND c.role = 'client' AND (:client = '' OR c.client_id = :client)
),
codecs AS (
  SELECT client, max_by(codec, struct(batches, codec)) AS codec, max(batches) AS most, sum(batches) AS batches,
    sort_array(collect_list(struct(-batches AS rank, codec AS value))) AS all_values
  FROM (SELECT client, codec, count(*) AS batches FROM batches GROUP BY client, codec) k
  GROUP BY client
),
produced AS (
  SELECT
    client,
    count(*) AS batches,
    sum(count) AS records,
    max(size) AS largest,
    percentile(size, 0.5) AS median_size,
    round(percentile(spread, 0.95), 3) AS spread_p95,
    max(spread) AS spread_max,
    sum(CASE WHEN count > 1 THEN 1 ELSE 0 END) AS of_many,
    sum(CASE WHEN producer_id >= 0 THEN 1 ELSE 0 END) AS idempotent,
    max(magic) AS magic
  FROM batches
  GROUP BY client
),
-- Produce requests in flight at once, of a connection.
flights AS (
  SELECT client, max(open) AS open
  FROM (
    SELECT client, sum(step) OVER (PARTITION BY connection_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS open
    FROM (
      SELECT client, connection_id, unix_micros(request_at) AS micros, 1 AS step FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
      UNION ALL
      SELECT client, connection_id, unix_micros(response_at), -1 FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
    ) steps
  ) running
  GROUP BY client
),
-- What comes again and again, and regularly: the median time between two.
gaps AS (
  SELECT client, api_key, round(percentile(gap, 0.5), 3) AS gap, round(percentile(gap, 0.75), 3) - round(percentile(gap, 0.25), 3) AS middle, count(gap) AS gaps
  FROM (
    SELECT
      client,
      api_key,
      micros - lag(micros) OVER (PARTITION BY client, connection_id, api_key, group_id ORDER BY micros, exchange) AS gap
    FROM requests
    WHERE api_key IN (3, 12, 68, 76) OR (api_key = 8 AND generation_id >= 0)
  ) g
  GROUP BY client, api_key
  HAVING count(gap) >= 3
),
resets AS (
  SELECT
    c.client,
    sum(CASE WHEN o.asked_timestamp_ms = -2 THEN 1 ELSE 0 END) AS earliest,
    sum(CASE WHEN o.asked_timestamp_ms = -1 THEN 1 ELSE 0 END) AS latest,
    sum(CASE WHEN o.kind = 'committed' AND o.offset = -1 THEN 1 ELSE 0 END) AS without
  FROM offsets o
  JOIN clients c ON c.connection_id = o.connection_id
  WHERE o.kind IN ('list', 'committed') AND c.role = 'client' AND coalesce(o.replica_id, -1) < 0
    AND (:client = '' OR c.client_id = :client)
  GROUP BY c.client
),
security AS (
  SELECT
    c.client,
    min(CASE
      WHEN k.tls_version IS NOT NULL AND k.sasl_mechanism IS NOT NULL THEN 'SASL_SSL'
      WHEN k.tls_version IS NOT NULL THEN 'SSL'
      WHEN k.sasl_mechanism IS NOT NULL THEN 'SASL_PLAINTEXT'
      ELSE 'PLAINTEXT'
    END) AS protocol,
    min(k.sasl_mechanism) AS mechanism,
    count(*) AS connections
  FROM clients c
  JOIN connections k ON k.connection_id = c.connection_id
  WHERE c.role = 'client' AND k.not_kafka IS NULL AND k.requests > 0 AND (:client = '' OR c.client_id = :client)
  GROUP BY c.client
),
found AS (
  SELECT client, setting, value, certainty, evidence,
    array_join(transform(filter(all_values, each -> each.value <> value), each -> concat(each.value, ' (', CAST(-each.rank AS STRING), ')')), ', ')
      AS others
  FROM sent_best
  UNION ALL
  SELECT client, 'compression.type', codec, CASE WHEN codec = 'none' THEN 'inferred' ELSE 'sent' END,
    concat(CAST(most AS STRING), ' of ', CAST(batches AS STRING), ' batches'),
    array_join(transform(filter(all_values, each -> each.value <> codec), each -> concat(each.value, ' (', CAST(-each.rank AS STRING), ')')), ', ')
  FROM codecs
  UNION ALL
  SELECT client, 'enable.idempotence', CASE WHEN idempotent > 0 THEN 'true' ELSE 'false' END, 'inferred',
    concat(CAST(idempotent AS STRING), ' of ', CAST(batches AS STRING), ' batches have a producer id'), ''
  FROM produced
  WHERE magic = 2
  UNION ALL
  SELECT client, 'batch.size', CAST(largest AS STRING), 'at least',
    concat('largest of ', CAST(batches AS STRING), ' batches as they came, compressed; median ', CAST(CAST(round(median_size, 0) AS BIGINT) AS STRING),
      ' bytes, ', CAST(round(records / batches, 1) AS STRING), ' records a batch'), ''
  FROM produced
  UNION ALL
  SELECT client, 'linger.ms', CAST(CAST(ceil(spread_p95 / 1000) AS BIGINT) AS STRING), 'inferred',
    concat('first to last record of a batch, 95 of 100 take no longer (', CAST(of_many AS STRING), ' batches with several records; longest ',
      CAST(spread_max DIV 1000 AS STRING), ' ms); waiting for an earlier request looks the same'), ''
  FROM produced
  WHERE of_many > 0 AND spread_p95 IS NOT NULL
  UNION ALL
  SELECT client, 'max.in.flight.requests.per.connection', CAST(open AS STRING), 'at least', 'Produce requests without a response at one time', ''
  FROM flights
  UNION ALL
  SELECT client, 'max.request.size (message.max.bytes)', CAST(max(request_size) AS STRING), 'at least', 'largest Produce request', ''
  FROM requests WHERE api_key = 0 GROUP BY client
  UNION ALL
  SELECT
    client,
    CASE api_key WHEN 8 THEN 'auto.commit.interval.ms' WHEN 3 THEN 'metadata.max.age.ms (topic.metadata.refresh.interval.ms)'
      ELSE 'heartbeat.interval.ms' END,
    CAST(CAST(round(gap / 1000, 0) AS BIGINT) AS STRING),
    CASE WHEN api_key = 3 THEN 'at least' ELSE 'inferred' END,
    concat('median of ', CAST(gaps AS STRING), ' times between two ', CASE api_key WHEN 8 THEN 'OffsetCommit' WHEN 3 THEN 'Metadata' WHEN 12 THEN 'Heartbeat'
      WHEN 68 THEN 'ConsumerGroupHeartbeat' ELSE 'ShareGroupHeartbeat' END, ' requests',
      CASE api_key WHEN 8 THEN '; or the application commits by itself' WHEN 3 THEN '; new topics and errors ask sooner' WHEN 12 THEN ''
        ELSE '; the broker sets it' END),
    ''
  FROM gaps
  WHERE api_key = 3 OR middle <= 0.25 * gap
  UNION ALL
  SELECT client, 'auto.offset.reset', CASE WHEN earliest > latest THEN 'earliest' ELSE 'latest' END, 'inferred',
    concat(CAST(without AS STRING), ' partitions without a committed offset; ListOffsets asked for the earliest of ', CAST(earliest AS STRING),
      ', for the latest of ', CAST(latest AS STRING)), ''
  FROM resets
  WHERE without > 0 AND earliest + latest > 0
  UNION ALL
  SELECT client, 'security.protocol', protocol, 'sent', concat(CAST(connections AS STRING), ' connections'), '' FROM security
  UNION ALL
  SELECT client, 'sasl.mechanism', mechanism, 'sent', 'SaslHandshake', '' FROM security WHERE mechanism IS NOT NULL
),
who AS (
  SELECT client, client_id, principal, software, software_version, sort_array(collect_set(client_address)) AS addresses
  FROM clients
  WHERE role = 'client'
  GROUP BY client, client_id, principal, software, software_version
)
SELECT
  w.client_id,
  w.principal,
  w.software,
  w.software_version,
  w.addresses,
  f.setting,
  f.value,
  f.certainty,
  f.evidence,
  nullif(f.others, '') AS others
FROM found f
JOIN who w ON w.client = f.client
ORDER BY w.client_id, w.principal, w.software, w.software_version, f.setting, f.value
