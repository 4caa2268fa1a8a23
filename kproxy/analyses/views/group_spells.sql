/*
meaning: >-
  The times for which a member was in its group: from its join until it left or disappeared. A member of a KIP-848 group that
  comes back under its old id begins another. first_generation and last_generation are the first and last in which it was seen;
  last_micros and last_api are time and API of its last request; beat_micros is the time of its last heartbeat of KIP-848, or equal
  to last_micros if none was seen; seen_until_micros is the end of the capture of its last request (capture_times); there_until_micros
  is until when a member of a group that is not classic counts, as it hears of an epoch late.
stored: true
*/
WITH heard AS (
  -- every request that a member sends for itself; LeaveGroup is left out, as others may send it, and without a generation
  SELECT e.connection_id, l.group_key, e.member_id, e.api_name, epoch_us(e.request_at) AS micros,
    CASE WHEN e.api_name LIKE '%GroupHeartbeat' THEN e.response_generation_id ELSE e.generation_id END AS generation,
    CASE WHEN e.api_name LIKE '%GroupHeartbeat' AND e.generation_id = 0 AND len(e.error_codes) = 0 THEN 1 ELSE 0 END AS begins,
    CASE WHEN len(e.error_codes) = 0 AND e.response_at IS NOT NULL THEN 1 ELSE 0 END AS succeeded,
    -- 27 is REBALANCE_IN_PROGRESS; other errors mean that it is no longer in the group
    CASE WHEN len(e.error_codes) = 0 OR array_contains(e.error_codes, CAST(27 AS SMALLINT)) THEN 1 ELSE 0 END AS itself
  FROM exchanges e
  JOIN connection_clusters k ON k.connection_id = e.connection_id
  JOIN group_lives l ON l.cluster = k.cluster AND l.group_id = e.group_id AND epoch_us(e.request_at) >= l.since_micros
    AND (l.until_micros IS NULL OR epoch_us(e.request_at) < l.until_micros)
  WHERE e.member_id <> '' AND e.request_at IS NOT NULL
    AND e.api_name IN (
      'Heartbeat', 'SyncGroup', 'OffsetCommit', 'ConsumerGroupHeartbeat', 'ShareGroupHeartbeat', 'StreamsGroupHeartbeat')
), joined AS (
  SELECT connection_id, group_key, member_id, epoch_us(coalesce(request_at, seen_at)) AS micros,
    CASE WHEN error_code = 0 THEN response_generation END AS generation
  FROM keyed_group_events WHERE event = 'join' AND group_type = 'classic' AND member_id <> ''
    AND coalesce(error_code, 0) <> 25 -- UNKNOWN_MEMBER_ID: it is no longer in the group
), owned AS (
  -- the earlier generation that a member names when it joins: the only source if the capture began later
  SELECT e.connection_id, e.group_key, e.member_id, epoch_us(coalesce(e.request_at, e.seen_at)) AS micros, e.generation
  FROM keyed_group_events e
  WHERE e.event = 'join' AND e.group_type = 'classic' AND e.error_code = 0 AND e.generation > 0 AND NOT EXISTS (
    SELECT 1 FROM keyed_group_events f WHERE f.group_key = e.group_key AND f.member_id = e.member_id AND f.error_code = 79)
), listed AS (
  -- the leader's JoinGroup response lists all members, also those whose own connections are not in the capture
  SELECT group_key, member AS member_id, epoch_us(seen_at) AS micros, response_generation AS generation
  FROM keyed_group_events CROSS JOIN unnest(members) AS members(member)
  WHERE event = 'join' AND group_type = 'classic' AND error_code = 0 AND is_leader
), all_heard AS (
  SELECT connection_id, group_key, member_id, micros, begins, itself, api_name,
    CASE WHEN succeeded = 1 AND generation > 0 THEN generation END AS generation
  FROM heard
  UNION ALL
  SELECT connection_id, group_key, member_id, micros, 0 AS begins, 1 AS itself, 'JoinGroup' AS api_name, generation FROM joined
  UNION ALL
  SELECT connection_id, group_key, member_id, micros, 0 AS begins, 1 AS itself, 'JoinGroup' AS api_name, generation FROM owned
  UNION ALL
  SELECT NULL AS connection_id, group_key, member_id, micros, 0 AS begins, 0 AS itself, CAST(NULL AS VARCHAR) AS api_name,
    generation FROM listed
), numbered AS (
  SELECT *, sum(begins) OVER (
    PARTITION BY group_key, member_id ORDER BY micros, begins DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  ) AS spell
  FROM all_heard
), spells AS (
  SELECT group_key, member_id, CAST(spell AS BIGINT) AS spell,
    min(generation) AS first_generation, max(generation) AS last_generation,
    min(micros) AS first_micros, max(CASE WHEN itself = 1 THEN {'micros': micros, 'api_name': api_name} END) AS last_heard,
    coalesce(max(CASE WHEN itself = 1 AND api_name LIKE '%GroupHeartbeat' THEN micros END),
      max(CASE WHEN itself = 1 THEN micros END)) AS beat_micros,
    max(connection_id) AS connection_id
  FROM numbered GROUP BY group_key, member_id, spell
), named AS (
  SELECT group_key, member_id, coalesce(max(CASE WHEN event <> 'leave' THEN client_id END), max(client_id)) AS client_id, max(group_instance_id) AS group_instance_id,
    max(session_timeout_ms) AS session_timeout_ms
  FROM keyed_group_events WHERE member_id <> '' AND event IN ('join', 'sync', 'heartbeat', 'leave') GROUP BY group_key, member_id
), chosen AS (
  -- the connection of the member's last request
  SELECT group_key, member_id, CAST(spell AS BIGINT) AS spell, connection_id, row_number() OVER (
    PARTITION BY group_key, member_id, spell ORDER BY micros DESC, connection_id
  ) AS place
  FROM numbered WHERE connection_id IS NOT NULL
), placed AS (
  SELECT s.group_key, s.member_id, s.spell, s.first_generation, s.last_generation, s.first_micros,
    s.last_heard.micros AS last_micros, s.last_heard.api_name AS last_api, s.beat_micros,
    n.client_id, n.group_instance_id, n.session_timeout_ms,
    coalesce(n.group_instance_id, s.member_id) AS identity,
    c.connection_id, k.client_address, k.client_port,
    epoch_us(k.closed_at) AS closed_micros, t.until_us AS seen_until_micros
  FROM spells s
  LEFT JOIN named n ON n.group_key = s.group_key AND n.member_id = s.member_id
  LEFT JOIN chosen c ON c.group_key = s.group_key AND c.member_id = s.member_id AND c.spell = s.spell AND c.place = 1
  LEFT JOIN connections k ON k.connection_id = c.connection_id
  LEFT JOIN capture_times t ON t.connection_id = k.connection_id
  WHERE s.first_generation IS NOT NULL
)
SELECT s.* EXCLUDE (next_micros, back_micros),
  -- a member of another group than a classic one learns of an epoch with its next heartbeat only, 5 s later: until then it is there;
  -- commits neither tell it nor keep its place
  CASE WHEN NOT EXISTS (
      SELECT 1 FROM keyed_group_events l WHERE l.event = 'leave' AND l.group_key = s.group_key AND l.member_id = s.member_id
        AND epoch_us(coalesce(l.request_at, l.seen_at)) BETWEEN s.first_micros AND coalesce(s.next_micros, 9000000000000000000)
      ) THEN s.beat_micros + 5500000
    -- a static member that is stopped keeps its place for a session, by default of 45 s, or until it is back
    WHEN EXISTS (
      SELECT 1 FROM keyed_group_events l WHERE l.event = 'leave' AND l.group_key = s.group_key AND l.member_id = s.member_id AND l.generation = -2
        AND epoch_us(coalesce(l.request_at, l.seen_at)) BETWEEN s.first_micros AND coalesce(s.next_micros, 9000000000000000000)
      ) THEN least(s.last_micros + 45000000, coalesce(s.back_micros - 1, 9000000000000000000)) END AS there_until_micros
FROM (
  SELECT *, lead(first_micros) OVER (PARTITION BY group_key, member_id ORDER BY first_micros) AS next_micros,
    lead(first_micros) OVER (PARTITION BY group_key, identity ORDER BY first_micros) AS back_micros
  FROM placed
) s
