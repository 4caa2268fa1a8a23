/*
meaning: >-
  Which member had which partition in each generation, from when on (started_micros), and which one had it last before
  (previous_identity, in the generation with the number previous_place). Members are named by their identity: the instance id of
  static members, else the member id.
stored: true
*/
WITH identities AS (
  SELECT group_key, member_id, max(identity) AS identity FROM group_spells GROUP BY group_key, member_id
), given AS (
  SELECT e.group_key, e.group_type, e.member_id, e.response_generation, e.generation, e.event, e.assignment,
    epoch_us(e.seen_at) AS micros, e.connection_id, e.exchange
  FROM keyed_group_events e
  WHERE e.event IN ('sync', 'assign', 'join', 'heartbeat') AND e.error_code = 0 AND e.assignment IS NOT NULL
), classic AS (
  -- assignments sent by the leader and received by the member: the later time is when the member had it
  SELECT group_key, generation, member_id, partition, max(micros) AS micros
  FROM given CROSS JOIN unnest(assignment) AS partitions(partition)
  WHERE group_type = 'classic' GROUP BY group_key, generation, member_id, partition
), latest AS (
  -- the last assignment that a member got before the next epoch began
  SELECT g.group_key, g.generation, h.member_id, h.assignment, h.micros, row_number() OVER (
    PARTITION BY g.group_key, g.generation, h.member_id ORDER BY h.micros DESC, h.connection_id, h.exchange DESC) AS recency
  FROM group_generations g
  JOIN given h ON h.group_key = g.group_key AND h.group_type <> 'classic' AND (g.next_micros IS NULL OR h.micros < g.next_micros)
  JOIN group_spells s ON s.group_key = h.group_key AND s.member_id = h.member_id
    AND s.first_generation <= g.generation AND s.last_generation >= g.generation AND h.micros >= s.first_micros
), epochs AS (
  SELECT group_key, generation, member_id, partition, micros
  FROM latest CROSS JOIN unnest(assignment) AS partitions(partition)
  WHERE recency = 1
), owned AS (
  SELECT * FROM classic UNION ALL SELECT * FROM epochs
), placed AS (
  SELECT o.group_key, o.generation, g.place, o.partition, coalesce(i.identity, o.member_id) AS identity,
    max(o.member_id) AS member_id, min(o.micros) AS started_micros
  FROM owned o
  JOIN group_generations g ON g.group_key = o.group_key AND g.generation = o.generation
  LEFT JOIN identities i ON i.group_key = o.group_key AND i.member_id = o.member_id
  GROUP BY o.group_key, o.generation, g.place, o.partition, coalesce(i.identity, o.member_id)
)
SELECT *,
  lag(identity) OVER (PARTITION BY group_key, partition ORDER BY place, started_micros, identity) AS previous_identity,
  lag(place) OVER (PARTITION BY group_key, partition ORDER BY place, started_micros, identity) AS previous_place
FROM placed
