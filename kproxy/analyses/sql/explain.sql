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
    unix_micros(e.request_at) AS micros
  FROM exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE c.role = 'client' AND e.request_at IS NOT NULL AND (:client = '' OR c.client_id = :client)
),
-- Values that requests carry: one row for each, counted.
-- Most requests of a client are alike: equal ones are parsed once.
alike AS (
  SELECT client, api_key, api_name, acks, timeout_ms, transactional_id, min_bytes, max_wait_ms, max_bytes, isolation_level, session_timeout_ms,
    rebalance_timeout_ms, protocols, group_id, group_instance_id, count(*) AS times
  FROM requests
  GROUP BY client, api_key, api_name, acks, timeout_ms, transactional_id, min_bytes, max_wait_ms, max_bytes, isolation_level, session_timeout_ms,
    rebalance_timeout_ms, protocols, group_id, group_instance_id
), sent AS (
  SELECT client, said.setting AS setting, said.value AS value, said.api AS api, sum(times) AS times
  FROM alike LATERAL VIEW explode(array(
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
), sent_best AS (
  SELECT client, setting,
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
  SELECT c.client,
    coalesce(b.codec, 'unknown') AS codec,
    b.size, b.count, b.connection_id, b.exchange,
    coalesce(b.topic, b.topic_id) AS topic,
    b.partition, b.producer_id, b.producer_epoch, b.base_sequence,
    unix_micros(b.base_timestamp) AS begun,
    b.magic,
    CASE WHEN b.magic = 2 AND b.timestamp_type = 'CreateTime' THEN unix_micros(b.max_timestamp) - unix_micros(b.base_timestamp) END AS spread
  FROM record_batches b
  JOIN clients c ON c.connection_id = b.connection_id
  WHERE b.direction = 'produce' AND b.magic IS NOT NULL AND c.role = 'client' AND (:client = '' OR c.client_id = :client)
), codecs AS (
  SELECT client, max_by(codec, struct(batches, codec)) AS codec, max(batches) AS most, sum(batches) AS batches,
    sort_array(collect_list(struct(-batches AS rank, codec AS value))) AS all_values
  FROM (SELECT client, codec, count(*) AS batches FROM batches GROUP BY client, codec) k
  GROUP BY client
), produced AS (
  SELECT client,
    count(*) AS batches,
    sum(count) AS records,
    max(size) AS largest,
    percentile(size, 0.5) AS median_size,
    -- backlog makes batches longer, not shorter
    CAST(round(percentile(CASE WHEN count > 1 THEN spread END, 0.25), 0) AS BIGINT) AS spread_p25,
    CAST(round(percentile(CASE WHEN count > 1 THEN spread / (count - 1) END, 0.5), 0) AS BIGINT) AS between_p50,
    max(spread) AS spread_max,
    sum(CASE WHEN count > 1 THEN 1 ELSE 0 END) AS of_many,
    sum(CASE WHEN size * 10 >= largest_size * 9 THEN 1 ELSE 0 END) AS of_large,
    sum(CASE WHEN producer_id >= 0 THEN 1 ELSE 0 END) AS idempotent,
    max(magic) AS magic
  FROM (SELECT *, max(size) OVER (PARTITION BY client) AS largest_size FROM batches) b
  GROUP BY client
),
-- Time between the first records of consecutive batches of a partition: a producer that lingers begins no other batch meanwhile.
steps AS (
  SELECT client, CAST(round(percentile(begun - begun_before, 0.1), 0) AS BIGINT) AS step_p10
  FROM (
    SELECT client, begun, lag(begun) OVER (PARTITION BY client, connection_id, topic, partition ORDER BY exchange, begun) AS begun_before
    FROM batches WHERE spread IS NOT NULL
  ) b
  WHERE begun >= begun_before
  GROUP BY client
),
-- Batches with the same sequence number, sent again (KIP-98).
repeats AS (
  SELECT client, max(times) - 1 AS most, sum(CASE WHEN times > 1 THEN 1 ELSE 0 END) AS repeated, count(*) AS batches
  FROM (
    SELECT client, count(DISTINCT struct(connection_id, exchange)) AS times
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
      SELECT client, connection_id, unix_micros(request_at) AS micros, 1 AS step FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
      UNION ALL
      SELECT client, connection_id, unix_micros(response_at), -1 FROM requests WHERE api_key = 0 AND response_at IS NOT NULL
    ) steps
  ) running
  GROUP BY client
),
-- Requests that recur regularly: the median time between two.
gaps AS (
  SELECT client, api_key, round(percentile(gap, 0.5), 3) AS gap, round(percentile(gap, 0.75), 3) - round(percentile(gap, 0.25), 3) AS middle, count(gap) AS gaps
  FROM (
    SELECT client, api_key,
      micros - lag(micros) OVER (PARTITION BY client, connection_id, api_key, group_id ORDER BY micros, exchange) AS gap
    FROM requests
    WHERE api_key IN (3, 12, 68, 76) OR (api_key = 8 AND generation_id >= 0)
  ) g
  GROUP BY client, api_key
  HAVING count(gap) >= 3
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
    AND (:client = '' OR c.client_id = :client)
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
  WHERE c.role = 'client' AND k.not_kafka IS NULL AND k.requests > 0 AND (:client = '' OR c.client_id = :client)
  GROUP BY c.client
), found AS (
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
  SELECT p.client,
    'linger.ms',
    CASE
      WHEN of_many * 2 <= batches THEN CAST(s.step_p10 DIV 1000 AS STRING)
      WHEN of_large * 2 > batches THEN CAST(spread_p25 DIV 1000 AS STRING)
      ELSE concat(CAST(spread_p25 DIV 1000 AS STRING), ' to ', CAST((spread_p25 + between_p50) DIV 1000 + 1 AS STRING)) -- the next record came too late
    END,
    CASE WHEN of_many * 2 <= batches THEN 'at most' WHEN of_large * 2 > batches THEN 'at least' ELSE 'inferred' END,
    CASE
      WHEN of_many * 2 <= batches THEN concat(CAST(batches - of_many AS STRING), ' of ', CAST(batches AS STRING),
        ' batches have one record, and one in ten began no later than this after the batch before')
      ELSE concat('from the first to the last record of a batch, by their timestamps; of three in four it is more (', CAST(of_many AS STRING), ' of ',
        CAST(batches AS STRING), ' batches have several; longest ', CAST(spread_max DIV 1000 AS STRING), ' ms); ',
        CASE WHEN of_large * 2 > batches THEN 'most are about as large as the largest, and may have left because they were full'
          ELSE 'waiting for an earlier request looks the same' END)
    END,
    ''
  FROM produced p
  LEFT JOIN steps s ON s.client = p.client
  WHERE (of_many * 2 > batches AND spread_p25 IS NOT NULL) OR (of_many * 2 <= batches AND s.step_p10 IS NOT NULL)
  UNION ALL
  SELECT client, 'retries', CAST(most AS STRING), 'at least',
    concat(CAST(repeated AS STRING), ' of ', CAST(batches AS STRING), ' batches were sent again, with the same sequence number'), ''
  FROM repeats
  WHERE most > 0
  UNION ALL
  SELECT client, 'max.in.flight.requests.per.connection', CAST(open AS STRING), 'at least', 'Produce requests without a response at one time', ''
  FROM flights
  UNION ALL
  SELECT client, 'max.request.size (message.max.bytes)', CAST(max(request_size) AS STRING), 'at least', 'largest Produce request', ''
  FROM requests WHERE api_key = 0 GROUP BY client
  UNION ALL
  SELECT client,
    CASE api_key WHEN 8 THEN 'auto.commit.interval.ms' WHEN 3 THEN 'metadata.max.age.ms (topic.metadata.refresh.interval.ms)'
      ELSE 'heartbeat.interval.ms' END,
    CAST(CAST(round(gap / 1000, 0) AS BIGINT) AS STRING),
    'inferred',
    concat('median of ', CAST(gaps AS STRING), ' times between two ', CASE api_key WHEN 8 THEN 'OffsetCommit' WHEN 3 THEN 'Metadata' WHEN 12 THEN 'Heartbeat'
      WHEN 68 THEN 'ConsumerGroupHeartbeat' ELSE 'ShareGroupHeartbeat' END, ' requests',
      CASE api_key WHEN 8 THEN '; or the application commits by itself' WHEN 3 THEN '; new topics and errors ask sooner' 
        WHEN 12 THEN '; librdkafka sends them up to 500 ms late' ELSE '; the broker sets it' END),
    ''
  FROM gaps
  WHERE middle <= 0.25 * gap
  UNION ALL
  SELECT m.client, 'enable.auto.commit', CASE WHEN m.commits = 0 THEN 'false' ELSE 'true' END, 'inferred',
    CASE WHEN m.commits = 0 THEN concat('no OffsetCommit in ', CAST(m.micros DIV 1000000 AS STRING), ' s, although it fetched ', CAST(m.records AS STRING), ' records')
      ELSE 'OffsetCommit requests come at regular times; or the application commits by itself' END,
    ''
  FROM members m
  LEFT JOIN gaps g ON g.client = m.client AND g.api_key = 8
  WHERE (m.commits = 0 AND m.records > 0 AND m.micros >= 10000000) OR g.middle <= 0.25 * g.gap
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
-- Settings that a reader would look for, and that the traffic does not show.
wanted AS (
  SELECT client, named.setting AS setting, named.why AS why
  FROM (SELECT client, 0 AS is_newer, 1 AS produces, 0 AS consumes, 0 AS is_member FROM requests WHERE api_key = 0 GROUP BY client
    UNION ALL
    SELECT client, 0, 0, 1, 0 FROM requests WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 GROUP BY client
    UNION ALL
    SELECT client, is_newer, 0, 0, 1 FROM members WHERE is_special = 0) r
  LATERAL VIEW explode(array(
    named_struct('applies', produces, 'setting', 'linger.ms', 'why', 'no two batches with times of their records were seen'),
    named_struct('applies', produces, 'setting', 'batch.size', 'why', 'no record batch was seen'),
    named_struct('applies', produces, 'setting', 'compression.type', 'why', 'no record batch was seen'),
    named_struct('applies', produces, 'setting', 'enable.idempotence', 'why', 'no record batch of message format 2 was seen'),
    named_struct('applies', produces, 'setting', 'retries', 'why', 'no batch was seen to be sent again'),
    named_struct('applies', produces, 'setting', 'delivery.timeout.ms (message.timeout.ms)', 'why', 'clients keep it to themselves'),
    named_struct('applies', consumes, 'setting', 'max.partition.fetch.bytes (fetch.message.max.bytes)', 'why',
      'each Fetch has it for each partition, as partitionMaxBytes: kproxy decode -v'),
    named_struct('applies', consumes, 'setting', 'max.poll.records', 'why', 'clients keep it to themselves'),
    named_struct('applies', is_member, 'setting', 'heartbeat.interval.ms', 'why', 'too few heartbeats were seen, or they came at irregular times'),
    named_struct('applies', is_member, 'setting', 'enable.auto.commit', 'why',
      'no regular commits were seen, nor records for ten seconds without one'),
    named_struct('applies', is_member, 'setting', 'session.timeout.ms', 'why',
      CASE WHEN is_newer = 1 THEN 'what counts is group.consumer.session.timeout.ms of the broker, which no request has'
        ELSE 'no JoinGroup was seen' END),
    named_struct('applies', is_member, 'setting', 'max.poll.interval.ms', 'why',
      CASE WHEN is_newer = 1 THEN 'no first heartbeat was seen' ELSE 'no JoinGroup was seen' END)
  )) named AS named
  WHERE named.applies = 1
), every AS (
  SELECT client, setting, value, certainty, evidence, others FROM found
  UNION ALL
  SELECT w.client, w.setting, CAST(NULL AS STRING), 'unknown', w.why, ''
  FROM wanted w
  WHERE NOT EXISTS (SELECT 1 FROM found f WHERE f.client = w.client AND f.setting = w.setting)
), who AS (
  SELECT client, client_id, principal, software, software_version, sort_array(collect_set(client_address)) AS addresses
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
