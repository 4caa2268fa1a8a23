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
  certainty: "sent: the client sends the value; inferred: it follows from behaviour; at least, at most: the traffic shows only a bound; unknown: no request shows it, evidence says why"
  evidence: requests that show it
  others: "values that were sent less often: several applications share the client id, or the setting was changed"
  principal: ""
  software: ""
  software_version: ""
  addresses: ""
action: Compare with what you think you configured.
reference: https://kafka.apache.org/documentation/#configuration
parameters:
  client: {default: "", meaning: Show only this client id.}
sampled: Requests that show a setting may be among the exchanges that are missing.
verdict: "{count client_id:client/clients} explained by {rows} settings; ask for one with the parameter client"
order: 70
default: false
*/
WITH requests AS (
  SELECT c.client,
    e.*,
    c.client_address, epoch_us(e.request_at) AS micros,
    -- what JoinGroup calls rebalance timeout is a setting of its own in aiokafka and in Go's clients
    CASE WHEN c.library IN ('apache-kafka-java', 'librdkafka', 'kafka-python') THEN 'max.poll.interval.ms' ELSE 'rebalance timeout' END
      AS rebalance_setting
  FROM exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE c.role = 'client' AND e.request_at IS NOT NULL AND ($client = '' OR c.client_id = $client)
),
-- Values that requests carry: one row for each, counted.
-- Most requests of a client are alike: equal ones are parsed once.
alike AS (
  SELECT client, api_key, api_name, acks, timeout_ms, transactional_id, min_bytes, max_wait_ms, max_bytes, isolation_level, session_timeout_ms,
    rebalance_timeout_ms, rebalance_setting, protocols, group_id, group_instance_id, count(*) AS times
  FROM requests
  GROUP BY client, api_key, api_name, acks, timeout_ms, transactional_id, min_bytes, max_wait_ms, max_bytes, isolation_level, session_timeout_ms,
    rebalance_timeout_ms, rebalance_setting, protocols, group_id, group_instance_id
), sent AS (
  SELECT client, said.setting AS setting, said.value AS value, said.api AS api, sum(times) AS times
  FROM alike CROSS JOIN unnest([
    {'api': 'Produce', 'setting': 'acks', 'value':
      CASE WHEN api_key = 0 THEN CASE acks WHEN -1 THEN 'all' ELSE CAST(acks AS VARCHAR) END END},
    {'api': 'Produce', 'setting': 'request.timeout.ms', 'value': CASE WHEN api_key = 0 THEN CAST(timeout_ms AS VARCHAR) END},
    {'api': 'InitProducerId', 'setting': 'transactional.id', 'value': CASE WHEN api_key = 22 THEN transactional_id END},
    {'api': 'InitProducerId', 'setting': 'transaction.timeout.ms', 'value':
      CASE WHEN api_key = 22 AND transactional_id IS NOT NULL THEN CAST(timeout_ms AS VARCHAR) END},
    {'api': 'Fetch', 'setting': 'fetch.min.bytes', 'value': CASE WHEN api_key = 1 THEN CAST(min_bytes AS VARCHAR) END},
    {'api': 'Fetch', 'setting': 'fetch.max.wait.ms (fetch.wait.max.ms)', 'value':
      CASE WHEN api_key = 1 THEN CAST(max_wait_ms AS VARCHAR) END},
    {'api': 'Fetch', 'setting': 'fetch.max.bytes', 'value': CASE WHEN api_key = 1 THEN CAST(max_bytes AS VARCHAR) END},
    {'api': 'Fetch', 'setting': 'isolation.level', 'value':
      CASE WHEN api_key = 1 THEN CASE isolation_level WHEN 1 THEN 'read_committed' WHEN 0 THEN 'read_uncommitted' END END},
    {'api': 'ShareFetch', 'setting': 'fetch.min.bytes', 'value': CASE WHEN api_key = 78 THEN CAST(min_bytes AS VARCHAR) END},
    {'api': 'ShareFetch', 'setting': 'fetch.max.wait.ms', 'value': CASE WHEN api_key = 78 THEN CAST(max_wait_ms AS VARCHAR) END},
    {'api': 'JoinGroup', 'setting': 'session.timeout.ms', 'value': CASE WHEN api_key = 11 THEN CAST(session_timeout_ms AS VARCHAR) END},
    {'api': 'JoinGroup', 'setting': rebalance_setting, 'value':
      CASE WHEN api_key = 11 THEN CAST(rebalance_timeout_ms AS VARCHAR) END},
    {'api': 'ConsumerGroupHeartbeat', 'setting': rebalance_setting, 'value':
      CASE WHEN api_key = 68 AND rebalance_timeout_ms >= 0 THEN CAST(rebalance_timeout_ms AS VARCHAR) END},
    {'api': 'JoinGroup', 'setting': 'partition.assignment.strategy', 'value':
      CASE WHEN api_key = 11 AND len(protocols) > 0 THEN array_to_string(protocols, ', ') END},
    {'api': 'ConsumerGroupHeartbeat', 'setting': 'group.remote.assignor', 'value':
      CASE WHEN api_key = 68 AND len(protocols) > 0 THEN nullif(array_to_string(protocols, ', '), '') END},
    {'api': coalesce(api_name, ''), 'setting': 'group.protocol', 'value':
      CASE api_key WHEN 11 THEN 'classic' WHEN 68 THEN 'consumer' WHEN 76 THEN 'share' WHEN 88 THEN 'streams' END},
    {'api': coalesce(api_name, ''), 'setting': 'group.id', 'value': CASE WHEN api_key IN (11, 68, 76, 88) THEN group_id END},
    {'api': coalesce(api_name, ''), 'setting': 'group.instance.id', 'value':
      CASE WHEN api_key IN (11, 68, 88) THEN group_instance_id END}
  ]) AS said(said)
  WHERE said.value IS NOT NULL
  GROUP BY client, said.setting, said.value, said.api
), sent_best AS (
  SELECT client, setting,
    max_by(value, {'times': times, 'value': value}) AS value,
    'sent' AS certainty,
    CAST(max(times) AS VARCHAR) || ' of ' || CAST(sum(times) AS VARCHAR) || ' ' || array_to_string(sorted_set(api), ', ') || ' requests'
      AS evidence,
    list_sort(list({'rank': -times, 'value': value})) AS all_values
  FROM sent
  GROUP BY client, setting
),
-- Producers, by their batches.
batches AS (
  SELECT c.client,
    coalesce(b.codec, 'unknown') AS codec,
    b.size, b.count, b.connection_id, b.exchange,
    coalesce(b.topic, b.topic_id) AS topic,
    b.partition, b.producer_id, b.producer_epoch, b.base_sequence,
    b.magic, c.library
  FROM record_batches b
  JOIN clients c ON c.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.magic IS NOT NULL AND c.role = 'client' AND ($client = '' OR c.client_id = $client)
), codecs AS (
  -- Clients send batches as they are that compression does not make smaller.
  SELECT client, max_by({'codec': codec, 'batches': batches}, {'compressed': codec <> 'none', 'batches': batches, 'codec': codec}) AS best,
    sum(batches) AS batches, max(largest) AS largest, max(compresses_all) AS compresses_all,
    list_sort(list({'rank': -batches, 'value': codec})) AS all_values
  FROM (
    SELECT client, codec, count(*) AS batches, max(size) AS largest, max(CASE library WHEN 'apache-kafka-java' THEN 1 ELSE 0 END) AS compresses_all
    FROM batches
    GROUP BY client, codec
  ) k
  GROUP BY client
), produced AS (
  SELECT client,
    count(*) AS batches,
    sum(count) AS records,
    max(CASE WHEN count > 1 THEN size END) AS largest, -- a record that is larger than batch.size is sent alone
    quantile_cont(size, 0.5) AS median_size,
    sum(CASE WHEN producer_id >= 0 THEN 1 ELSE 0 END) AS idempotent,
    max(magic) AS magic
  FROM batches
  GROUP BY client
),
-- Batches with the same sequence number, sent again (KIP-98).
repeats AS (
  SELECT client, max(times) - 1 AS most, sum(CASE WHEN times > 1 THEN 1 ELSE 0 END) AS repeated, count(*) AS batches
  FROM (
    SELECT client, count(DISTINCT {'connection_id': connection_id, 'exchange': exchange}) AS times
    FROM batches WHERE producer_id >= 0 AND base_sequence >= 0
    GROUP BY client, topic, partition, producer_id, producer_epoch, base_sequence
  ) b
  GROUP BY client
),
-- Produce requests in flight at once, of a connection.
flights AS (
  SELECT client, max(open) AS open
  FROM (
    SELECT client, sum(step) OVER (PARTITION BY connection_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS open
    FROM (
      SELECT client, connection_id, epoch_us(request_at) AS micros, 1 AS step FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
      UNION ALL
      SELECT client, connection_id, epoch_us(response_at), -1 FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
    ) steps
  ) running
  GROUP BY client
),
-- Requests that recur regularly. Clients count from the request or from its response; librdkafka looks every 500 ms whether one is due.
gaps AS (
  SELECT client, api_key, floor(rest * 0.9 - CASE WHEN api_key = 12 THEN 500 ELSE 0 END) AS low, ceil(late) AS high, gaps
  FROM (
    SELECT client, api_key, quantile_cont(gap, 0.25) / 1000 AS soon, quantile_cont(gap, 0.75) / 1000 AS late, count(gap) AS gaps,
      quantile_cont(gap - answered_in, 0.25) / 1000 AS rest
    FROM (
      SELECT client, api_key,
        micros - lag(micros) OVER recurring AS gap,
        lag(coalesce(epoch_us(response_at) - micros, 0)) OVER recurring AS answered_in
      FROM requests
      WHERE api_key IN (3, 12)
      WINDOW recurring AS ( -- Metadata goes to any broker, a heartbeat to one
        PARTITION BY client, client_address, CASE api_key WHEN 12 THEN connection_id END, api_key, group_id ORDER BY micros, exchange)
    ) g
    GROUP BY client, api_key
  ) q
  WHERE gaps >= 3 AND late <= 1.25 * soon
    AND (api_key <> 3 OR soon >= 2000) -- sooner, it asks again after an error: retry.backoff.max.ms is 1000
),
-- Members of groups, and their requests as members.
members AS (
  SELECT client,
    max(CASE WHEN api_key IN (68, 76, 88) THEN 1 ELSE 0 END) AS is_newer,
    max(CASE WHEN api_key IN (76, 88) THEN 1 ELSE 0 END) AS is_special,
    sum(CASE WHEN api_key = 8 THEN 1 ELSE 0 END) AS commits,
    CAST(coalesce(sum(CASE WHEN api_key = 1 THEN records END), 0) AS BIGINT) AS records,
    max(micros) - min(CASE WHEN api_key IN (11, 12, 14, 68, 76, 88) THEN micros END) AS micros
  FROM requests
  GROUP BY client
  HAVING max(CASE WHEN api_key IN (11, 12, 14, 68, 76, 88) THEN 1 ELSE 0 END) = 1
), resets AS (
  SELECT c.client,
    sum(CASE WHEN o.asked_timestamp_ms = -2 THEN 1 ELSE 0 END) AS earliest,
    sum(CASE WHEN o.asked_timestamp_ms = -1 THEN 1 ELSE 0 END) AS latest,
    sum(CASE WHEN o.kind = 'committed' AND o.partition_offset = -1 THEN 1 ELSE 0 END) AS without
  FROM offsets o
  JOIN clients c ON c.connection_id = o.connection_id
  WHERE o.kind IN ('list', 'committed') AND c.role = 'client' AND coalesce(o.replica_id, -1) < 0
    AND ($client = '' OR c.client_id = $client)
  GROUP BY c.client
), security AS (
  SELECT c.client,
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
  WHERE c.role = 'client' AND k.not_kafka IS NULL AND k.requests > 0 AND ($client = '' OR c.client_id = $client)
  GROUP BY c.client
), found AS (
  SELECT client, setting, value, certainty, evidence,
    array_to_string(list_transform(list_filter(all_values, lambda each: each.value <> value), lambda each: each.value || ' (' || CAST(-each.rank AS VARCHAR) || ')'), ', ')
      AS others
  FROM sent_best
  UNION ALL
  SELECT client, 'compression.type', best.codec, CASE WHEN best.codec = 'none' THEN 'inferred' ELSE 'sent' END,
    CAST(best.batches AS VARCHAR) || ' of ' || CAST(batches AS VARCHAR) || ' batches',
    array_to_string(list_transform(list_filter(all_values, lambda each: each.value <> best.codec), lambda each: each.value || ' (' || CAST(-each.rank AS VARCHAR) || ')'), ', ')
  FROM codecs
  WHERE best.codec <> 'none' OR compresses_all = 1 OR largest >= 1000
  UNION ALL
  SELECT client, 'enable.idempotence', CASE WHEN idempotent > 0 THEN 'true' ELSE 'false' END, 'inferred',
    CAST(idempotent AS VARCHAR) || ' of ' || CAST(batches AS VARCHAR) || ' batches have a producer id', ''
  FROM produced
  WHERE magic = 2
  UNION ALL
  SELECT client, 'batch.size', CAST(largest AS VARCHAR), 'at least',
    'largest of ' || CAST(batches AS VARCHAR) || ' batches that has several records, as it was sent; median of all ' || CAST(CAST(round(median_size, 0) AS BIGINT) AS VARCHAR) ||
      ' bytes, ' || CAST(round(records / batches, 1) AS VARCHAR) || ' records a batch', ''
  FROM produced
  WHERE largest IS NOT NULL
  UNION ALL
  SELECT client, 'retries', CAST(most AS VARCHAR), 'at least',
    CAST(repeated AS VARCHAR) || ' of ' || CAST(batches AS VARCHAR) || ' batches were sent again, with the same sequence number', ''
  FROM repeats
  WHERE most > 0
  UNION ALL
  SELECT client, 'max.in.flight.requests.per.connection', CAST(open AS VARCHAR), 'at least', 'Produce requests without a response at one time', ''
  FROM flights
  UNION ALL
  SELECT client, 'max.request.size (message.max.bytes)', CAST(max(request_size) AS VARCHAR), 'at least', 'largest Produce request', ''
  FROM requests WHERE api_key = 0 GROUP BY client
  UNION ALL
  SELECT client,
    CASE api_key WHEN 3 THEN 'metadata.max.age.ms (topic.metadata.refresh.interval.ms)' ELSE 'heartbeat.interval.ms' END,
    CAST(CAST(low AS BIGINT) AS VARCHAR) || ' to ' || CAST(CAST(high AS BIGINT) AS VARCHAR),
    'inferred',
    'from ' || CAST(gaps AS VARCHAR) || ' times between two ' ||
      CASE api_key WHEN 3 THEN 'Metadata requests; new topics and errors ask sooner' ELSE 'Heartbeat requests; librdkafka sends them up to 500 ms late' END,
    ''
  FROM gaps
  WHERE high <= 2 * low
  UNION ALL
  SELECT client, 'enable.auto.commit', 'false', 'inferred',
    'no OffsetCommit in ' || CAST(micros // 1000000 AS VARCHAR) || ' s, although it fetched ' || CAST(records AS VARCHAR) || ' records', ''
  FROM members
  WHERE commits = 0 AND records > 0 AND micros >= 60000000
  UNION ALL
  SELECT client, 'auto.offset.reset', CASE WHEN earliest > latest THEN 'earliest' ELSE 'latest' END, 'inferred',
    CAST(without AS VARCHAR) || ' partitions without a committed offset; ListOffsets asked for the earliest of ' || CAST(earliest AS VARCHAR) ||
      ', for the latest of ' || CAST(latest AS VARCHAR), ''
  FROM resets
  WHERE without > 0 AND earliest + latest > 0
  UNION ALL
  SELECT client, 'security.protocol', protocol, 'sent', CAST(connections AS VARCHAR) || ' connections', '' FROM security
  UNION ALL
  SELECT client, 'sasl.mechanism', mechanism, 'sent', 'SaslHandshake', '' FROM security WHERE mechanism IS NOT NULL
),
-- Settings that a reader would look for, and that the traffic does not show.
wanted AS (
  SELECT client, named.setting AS setting, named.why AS why
  FROM (SELECT client, 0 AS is_newer, 1 AS produces, 0 AS consumes, 0 AS is_member FROM requests WHERE api_key = 0 GROUP BY client
    UNION ALL
    SELECT client, 0, 0, 1, 0 FROM requests WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 GROUP BY client
    UNION ALL
    SELECT client, is_newer, 0, 0, 1 FROM members WHERE is_special = 0) r
  CROSS JOIN unnest([
    {'applies': produces, 'setting': 'linger.ms', 'why':
      'clients keep it to themselves: a batch also waits for earlier requests, and leaves early when it is full or flushed'},
    {'applies': produces, 'setting': 'batch.size', 'why': 'no record batch with several records was seen'},
    {'applies': produces, 'setting': 'compression.type', 'why':
      'no record batch was seen, or only small ones, which clients send as they are when compression does not help'},
    {'applies': produces, 'setting': 'enable.idempotence', 'why': 'no record batch of message format 2 was seen'},
    {'applies': produces, 'setting': 'retries', 'why': 'no batch was seen to be sent again'},
    {'applies': produces, 'setting': 'delivery.timeout.ms (message.timeout.ms)', 'why': 'clients keep it to themselves'},
    {'applies': consumes, 'setting': 'max.partition.fetch.bytes (fetch.message.max.bytes)', 'why':
      'each Fetch has it for each partition, as partitionMaxBytes: kproxy decode -v'},
    {'applies': consumes, 'setting': 'max.poll.records', 'why': 'clients keep it to themselves'},
    {'applies': is_member, 'setting': 'heartbeat.interval.ms', 'why':
      CASE WHEN is_newer = 1 THEN 'what counts is group.consumer.heartbeat.interval.ms of the broker'
        ELSE 'too few heartbeats were seen, or they came at irregular times' END},
    {'applies': is_member, 'setting': 'enable.auto.commit', 'why':
      'commits of the consumer and of the application look the same, and no minute with records and without commits was seen'},
    {'applies': is_member, 'setting': 'session.timeout.ms', 'why':
      CASE WHEN is_newer = 1 THEN 'what counts is group.consumer.session.timeout.ms of the broker, which no request has'
        ELSE 'no JoinGroup was seen' END},
    {'applies': is_member, 'setting': 'max.poll.interval.ms', 'why':
      CASE WHEN is_newer = 1 THEN 'no first heartbeat was seen' ELSE 'no JoinGroup has it' END}
  ]) AS named(named)
  WHERE named.applies = 1
), every AS (
  SELECT client, setting, value, certainty, evidence, others FROM found
  UNION ALL
  SELECT w.client, w.setting, CAST(NULL AS VARCHAR), 'unknown', w.why, ''
  FROM wanted w
  WHERE NOT EXISTS (SELECT 1 FROM found f WHERE f.client = w.client AND f.setting = w.setting)
), who AS (
  SELECT client, client_id, principal, software, software_version, sorted_set(client_address) AS addresses
  FROM clients
  WHERE role = 'client'
  GROUP BY client, client_id, principal, software, software_version
)
SELECT
  w.client_id, w.principal, w.software, w.software_version, w.addresses, f.setting, f.value, f.certainty, f.evidence,
  nullif(f.others, '') AS others
FROM every f
JOIN who w ON w.client = f.client
ORDER BY w.client_id, w.principal, w.software, w.software_version, f.setting, f.value
