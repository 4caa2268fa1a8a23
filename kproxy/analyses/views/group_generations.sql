/*
meaning: >-
  The generations (epochs of KIP-848 and its kin) of each group that were seen, in their order; formed is true where it was seen
  to begin. began_micros is the first sign of it, formed_micros when its members knew of it (of epochs: the first), last_micros
  when the last one had its assignment; place counts them.
stored: true
*/
WITH classic AS (
  SELECT group_id, response_generation AS generation, unix_micros(request_at) AS asked, unix_micros(at) AS known, member_id
  FROM group_events
  WHERE event = 'join' AND group_type = 'classic' AND error_code = 0 AND response_generation IS NOT NULL
), syncs AS (
  SELECT group_id, response_generation AS generation, member_id, unix_micros(at) AS known, size(assignment) AS given
  FROM group_events
  WHERE event = 'sync' AND error_code = 0 AND response_generation IS NOT NULL
), first_syncs AS (
  SELECT group_id, generation, min(known) AS first_synced FROM syncs GROUP BY group_id, generation
), in_time AS (
  -- a join after the assignments were made is that of a static member that is back: it changes nothing
  SELECT c.* FROM classic c
  LEFT JOIN first_syncs f ON f.group_id = c.group_id AND f.generation = c.generation
  WHERE f.first_synced IS NULL OR c.asked <= f.first_synced
), synced AS (
  SELECT s.group_id, s.generation, max(s.known) AS last_synced, min(CASE WHEN s.given > 0 THEN s.known END) AS resumed
  FROM syncs s
  JOIN in_time c ON c.group_id = s.group_id AND c.generation = s.generation AND c.member_id = s.member_id
  GROUP BY s.group_id, s.generation
), classic_generations AS (
  SELECT group_id, generation, 'classic' AS group_type, min(asked) AS asked_micros, max(known) AS formed_micros
  FROM in_time GROUP BY group_id, generation
), epochs AS (
  SELECT group_id, group_type, response_generation AS generation, event, unix_micros(request_at) AS asked,
    unix_micros(at) AS known, generation AS before, size(assignment) AS given, member_id, exchange, connection_id,
    array_join(sort_array(assignment), ',') AS assigned, array_join(sort_array(owned), ',') AS owned
  FROM group_events
  WHERE group_type <> 'classic' AND error_code = 0 AND response_generation > 0 AND event IN ('join', 'heartbeat')
), epochs_formed AS (
  SELECT group_id, generation, max(group_type) AS group_type,
    min(CASE WHEN event = 'join' THEN asked ELSE known END) AS asked_micros, min(known) AS formed_micros,
    max(CASE WHEN before <> generation THEN 1 ELSE 0 END) AS formed
  FROM epochs GROUP BY group_id, generation
), epochs_next AS (
  SELECT *, lead(formed_micros) OVER (PARTITION BY group_id ORDER BY formed_micros, generation) AS next_micros FROM epochs_formed
), progress AS (
  -- what brings members to an epoch; they also repeat what they own, to a coordinator that is new for instance
  SELECT group_id, generation, known, CAST(NULL AS BIGINT) AS resumed FROM epochs
  WHERE before <> generation AND (event <> 'join' OR assigned IS NULL)
  UNION ALL
  SELECT group_id, generation, known, CASE WHEN given > 0 THEN known END AS resumed FROM (
    SELECT group_id, generation, known, given, assigned, lag(assigned) OVER (
      PARTITION BY group_id, member_id ORDER BY known, exchange, connection_id) AS assigned_before
    FROM epochs WHERE assigned IS NOT NULL) a
  WHERE assigned_before IS NULL OR assigned <> assigned_before
  UNION ALL
  SELECT group_id, generation, known, CAST(NULL AS BIGINT) AS resumed FROM (
    SELECT group_id, generation, known, owned, lag(owned) OVER (
      PARTITION BY group_id, member_id ORDER BY known, exchange, connection_id) AS owned_before
    FROM epochs WHERE owned IS NOT NULL AND event = 'heartbeat') o
  WHERE owned_before IS NULL OR owned <> owned_before
), late AS (
  -- a static member that is back gets what it had
  SELECT n.group_id, n.generation, min(j.known) AS micros
  FROM epochs_next n
  JOIN epochs j ON j.group_id = n.group_id AND j.generation = n.generation AND j.event = 'join' AND j.asked > n.formed_micros
  GROUP BY n.group_id, n.generation
), epoch_generations AS (
  -- what members are told of an epoch after the next one began belongs to the next
  SELECT n.group_id, n.generation, n.group_type, n.asked_micros, n.formed_micros, n.formed,
    greatest(n.formed_micros, coalesce(max(p.known), n.formed_micros)) AS ended_micros, min(p.resumed) AS resumed_micros
  FROM epochs_next n
  LEFT JOIN late l ON l.group_id = n.group_id AND l.generation = n.generation
  LEFT JOIN progress p ON p.group_id = n.group_id AND p.generation = n.generation
    AND (n.next_micros IS NULL OR p.known < n.next_micros) AND (l.micros IS NULL OR p.known < l.micros)
  GROUP BY n.group_id, n.generation, n.group_type, n.asked_micros, n.formed_micros, n.formed
), known_generations AS (
  SELECT c.group_id, c.generation, c.group_type, c.asked_micros, c.formed_micros,
    coalesce(s.last_synced, c.formed_micros) AS last_micros, s.resumed AS resumed_micros, true AS formed
  FROM classic_generations c
  LEFT JOIN synced s ON s.group_id = c.group_id AND s.generation = c.generation
  UNION ALL
  SELECT group_id, generation, group_type, asked_micros, formed_micros, ended_micros AS last_micros, resumed_micros,
    formed = 1 AS formed
  FROM epoch_generations
), found AS (
  SELECT * FROM known_generations
  UNION ALL
  -- those whose beginning was not seen, only members in it
  SELECT s.group_id, s.first_generation AS generation, CAST(NULL AS STRING) AS group_type, min(s.first_micros) AS asked_micros,
    min(s.first_micros) AS formed_micros, min(s.first_micros) AS last_micros, CAST(NULL AS BIGINT) AS resumed_micros,
    false AS formed
  FROM group_spells s
  LEFT JOIN known_generations k ON k.group_id = s.group_id AND k.generation = s.first_generation
  WHERE k.group_id IS NULL
  GROUP BY s.group_id, s.first_generation
), in_order AS (
  SELECT *,
    lag(generation) OVER (PARTITION BY group_id ORDER BY formed_micros, generation) AS previous_generation,
    coalesce(lag(formed_micros) OVER (PARTITION BY group_id ORDER BY formed_micros, generation), CAST(0 AS BIGINT))
      AS previous_micros,
    lead(formed_micros) OVER (PARTITION BY group_id ORDER BY formed_micros, generation) AS next_micros,
    row_number() OVER (PARTITION BY group_id ORDER BY formed_micros, generation) AS place
  FROM found
), signs AS (
  -- the first signs of a rebalance: a member leaves, is told of it, or asks to join, be it only to be sent back for a member id
  SELECT group_id, unix_micros(coalesce(request_at, at)) AS micros, CAST(NULL AS INT) AS of_generation,
    CAST(NULL AS STRING) AS member_id
  FROM group_events WHERE event = 'leave' AND coalesce(error_code, 0) = 0 AND coalesce(generation, 0) <> -2
  UNION ALL
  SELECT group_id, unix_micros(at) AS micros, generation AS of_generation, CAST(NULL AS STRING) AS member_id
  FROM group_events WHERE event IN ('heartbeat', 'commit', 'sync') AND error_code = 27
  UNION ALL
  SELECT group_id, unix_micros(coalesce(request_at, at)) AS micros, CAST(NULL AS INT) AS of_generation, member_id
  FROM group_events WHERE event = 'join' AND group_type = 'classic' AND error_code = 79
), began AS (
  SELECT g.group_id, g.generation, min(s.micros) AS micros
  FROM in_order g JOIN signs s ON s.group_id = g.group_id AND s.micros > g.previous_micros AND s.micros <= g.formed_micros
  WHERE (s.of_generation IS NULL OR s.of_generation = g.previous_generation) AND (s.member_id IS NULL OR EXISTS (
    SELECT 1 FROM group_events j WHERE j.group_id = g.group_id AND j.response_generation = g.generation
      AND j.member_id = s.member_id))
  GROUP BY g.group_id, g.generation
)
SELECT g.*, least(g.asked_micros, coalesce(b.micros, g.asked_micros)) AS began_micros
FROM in_order g LEFT JOIN began b ON b.group_id = g.group_id AND b.generation = g.generation
