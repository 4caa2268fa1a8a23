/*
meaning: >-
  The captured generations of each group (epochs, for KIP-848 groups and the like), in order; formed is true if its beginning
  was captured. began_micros is the first sign of it, formed_micros when its members knew of it (of epochs: the first), last_micros
  when the last one had its assignment; place counts them. emptied is true if all members left, or were silent for longer
  than their session timeout: the coordinator then counts one more generation, which no member learns of.
stored: true
*/
WITH with_epochs AS (
  -- groups of another kind than classic ones; members of the classic protocol that join them have their epochs
  SELECT group_key, max(group_type) AS group_type, min(response_generation) AS lowest, max(response_generation) AS highest
  FROM keyed_group_events
  WHERE group_type <> 'classic' AND error_code = 0 AND response_generation > 0 AND event IN ('join', 'heartbeat')
  GROUP BY group_key
), classic AS (
  SELECT e.group_key, e.response_generation AS generation, epoch_us(e.request_at) AS asked, epoch_us(e.seen_at) AS known, e.member_id
  FROM keyed_group_events e
  WHERE e.event = 'join' AND e.group_type = 'classic' AND e.error_code = 0 AND e.response_generation IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM with_epochs w WHERE w.group_key = e.group_key AND e.response_generation BETWEEN w.lowest AND w.highest)
), syncs AS (
  SELECT group_key, response_generation AS generation, member_id, epoch_us(seen_at) AS known
  FROM keyed_group_events
  WHERE event = 'sync' AND error_code = 0 AND response_generation IS NOT NULL
), first_syncs AS (
  SELECT group_key, generation, min(known) AS first_synced FROM syncs GROUP BY group_key, generation
), in_time AS (
  -- a join after the assignments were made is by a static member that came back, and changes nothing
  SELECT c.* FROM classic c
  LEFT JOIN first_syncs f ON f.group_key = c.group_key AND f.generation = c.generation
  WHERE f.first_synced IS NULL OR c.asked <= f.first_synced
), synced AS (
  SELECT s.group_key, s.generation, max(s.known) AS last_synced
  FROM syncs s
  JOIN in_time c ON c.group_key = s.group_key AND c.generation = s.generation AND c.member_id = s.member_id
  GROUP BY s.group_key, s.generation
), classic_generations AS (
  SELECT group_key, generation, 'classic' AS group_type, min(asked) AS asked_micros, max(known) AS formed_micros
  FROM in_time GROUP BY group_key, generation
), epochs AS (
  SELECT e.group_key, w.group_type, e.response_generation AS generation, e.event, e.group_type = 'classic' AS is_classic,
    epoch_us(e.request_at) AS asked, epoch_us(e.seen_at) AS known, coalesce(e.generation, 0) AS before, e.member_id, e.exchange, e.connection_id,
    array_to_string(list_sort(e.assignment), ',') AS assigned, array_to_string(list_sort(e.owned), ',') AS owned
  FROM keyed_group_events e
  JOIN with_epochs w ON w.group_key = e.group_key
  WHERE e.response_generation BETWEEN w.lowest AND w.highest AND e.error_code = 0 AND e.event IN ('join', 'heartbeat')
), epochs_formed AS (
  SELECT group_key, generation, max(group_type) AS group_type,
    min(CASE WHEN event = 'join' THEN asked ELSE known END) AS asked_micros, min(known) AS formed_micros,
    max(CASE WHEN before <> generation THEN 1 ELSE 0 END) AS formed
  FROM epochs GROUP BY group_key, generation
), epochs_next AS (
  SELECT *, lead(formed_micros) OVER (PARTITION BY group_key ORDER BY formed_micros, generation) AS next_micros FROM epochs_formed
), progress AS (
  -- when members proceeded to an epoch: changes only, as members also repeat what they own, for instance to a new coordinator
  SELECT group_key, generation, known FROM epochs
  WHERE before <> generation AND (event <> 'join' OR assigned IS NULL)
  UNION ALL
  SELECT group_key, generation, known FROM (
    SELECT group_key, generation, known, assigned, lag(assigned) OVER (
      PARTITION BY group_key, member_id ORDER BY known, exchange, connection_id) AS assigned_before
    FROM epochs WHERE assigned IS NOT NULL) a
  WHERE assigned_before IS NULL OR assigned <> assigned_before
  UNION ALL
  SELECT group_key, generation, known FROM (
    SELECT group_key, generation, known, owned, lag(owned) OVER (
      PARTITION BY group_key, member_id ORDER BY known, exchange, connection_id) AS owned_before
    FROM epochs WHERE owned IS NOT NULL AND event = 'heartbeat') o
  WHERE owned_before IS NULL OR owned <> owned_before
), late AS (
  -- joins of static members that came back, which get the assignment they had
  SELECT n.group_key, n.generation, min(j.known) AS micros
  FROM epochs_next n
  JOIN epochs j ON j.group_key = n.group_key AND j.generation = n.generation AND j.event = 'join' AND NOT j.is_classic
    AND j.asked > n.formed_micros
  GROUP BY n.group_key, n.generation
), epoch_generations AS (
  -- progress after the next epoch began counts for the next epoch
  SELECT n.group_key, n.generation, n.group_type, n.asked_micros, n.formed_micros, n.formed,
    greatest(n.formed_micros, coalesce(max(p.known), n.formed_micros)) AS ended_micros
  FROM epochs_next n
  LEFT JOIN late l ON l.group_key = n.group_key AND l.generation = n.generation
  LEFT JOIN progress p ON p.group_key = n.group_key AND p.generation = n.generation
    AND (n.next_micros IS NULL OR p.known < n.next_micros) AND (l.micros IS NULL OR p.known < l.micros)
  GROUP BY n.group_key, n.generation, n.group_type, n.asked_micros, n.formed_micros, n.formed
), known_generations AS (
  SELECT c.group_key, c.generation, c.group_type, c.asked_micros, c.formed_micros,
    coalesce(s.last_synced, c.formed_micros) AS last_micros, true AS formed, false AS emptied
  FROM classic_generations c
  LEFT JOIN synced s ON s.group_key = c.group_key AND s.generation = c.generation
  UNION ALL
  SELECT group_key, generation, group_type, asked_micros, formed_micros, ended_micros AS last_micros, formed = 1 AS formed,
    false AS emptied
  FROM epoch_generations
), departures AS (
  SELECT group_key, member_id, group_instance_id, epoch_us(coalesce(request_at, seen_at)) AS asked, epoch_us(seen_at) AS known
  FROM keyed_group_events WHERE event = 'leave' AND coalesce(error_code, 0) = 0 AND coalesce(generation, 0) <> -2
), followed AS (
  SELECT group_key, generation, group_type, asked_micros, formed_micros,
    lead(asked_micros) OVER (PARTITION BY group_key ORDER BY formed_micros, generation) AS next_asked_micros
  FROM known_generations
), waiting AS (
  -- groups in which the coordinator still holds a join or sync, and so is active
  SELECT l.group_key, max(epoch_us(e.request_at)) AS micros
  FROM exchanges e
  JOIN connections c ON c.connection_id = e.connection_id
  JOIN connection_clusters k ON k.connection_id = e.connection_id
  JOIN group_lives l ON l.cluster = k.cluster AND l.group_id = e.group_id AND epoch_us(e.request_at) >= l.since_micros
    AND (l.until_micros IS NULL OR epoch_us(e.request_at) < l.until_micros)
  WHERE e.api_key IN (11, 14) AND e.request_at IS NOT NULL AND e.response_at IS NULL AND c.closed_at IS NULL
  GROUP BY l.group_key
), expiries AS (
  -- when the coordinator removes a silent member; 45 s is the default session timeout of consumers, and of brokers for KIP-848.
  -- Where the coordinator itself went away until then, nobody knows whether the member was silent
  SELECT s.group_key, s.member_id, s.spell, s.last_micros, s.seen_until_micros, s.micros
  FROM (
    SELECT *, last_micros + CAST(coalesce(session_timeout_ms, 45000) AS BIGINT) * 1000 AS micros FROM group_spells
  ) s
  LEFT JOIN client_connections c ON c.connection_id = s.connection_id
  WHERE NOT EXISTS (
    SELECT 1 FROM broker_absences a WHERE a.cluster = c.cluster AND a.broker = c.node
      AND a.went_us <= s.micros
      AND coalesce(a.back_us, a.until_us) >= s.last_micros)
    AND NOT coalesce(c.closed_by = 'broker' AND c.closed_us <= s.micros, false)
), left_behind AS (
  -- members of each generation, and when they left or expired before the next; some may not have learned of an epoch yet
  SELECT f.group_key, f.generation, f.group_type, s.member_id, s.spell,
    coalesce(min(d.asked), min(CASE WHEN w.group_key IS NULL THEN x.last_micros END)) AS asked,
    coalesce(min(d.known), min(CASE WHEN w.group_key IS NULL THEN x.micros END)) AS known
  FROM followed f
  JOIN group_spells s ON s.group_key = f.group_key AND s.first_generation <= f.generation
    AND (s.last_generation >= f.generation OR (f.group_type <> 'classic' AND s.last_micros >= f.formed_micros - 5500000))
  LEFT JOIN departures d ON d.group_key = s.group_key AND d.asked > f.asked_micros AND d.asked >= s.first_micros
    AND (f.next_asked_micros IS NULL OR d.known < f.next_asked_micros)
    AND (d.member_id = s.member_id OR (d.member_id = '' AND d.group_instance_id = s.group_instance_id))
  LEFT JOIN expiries x ON x.group_key = s.group_key AND x.member_id = s.member_id AND x.spell = s.spell
    AND x.micros < x.seen_until_micros AND (f.next_asked_micros IS NULL OR x.micros < f.next_asked_micros)
  LEFT JOIN waiting w ON w.group_key = f.group_key AND w.micros > f.formed_micros
  GROUP BY f.group_key, f.generation, f.group_type, s.member_id, s.spell
), emptied AS (
  SELECT group_key, CAST(generation AS BIGINT) + 1 AS generation, max(group_type) AS group_type, min(asked) AS asked_micros,
    max(known) AS formed_micros
  FROM left_behind AS l
  WHERE NOT EXISTS ( -- a group that empties counts a generation for it
    SELECT 1 FROM known_generations k WHERE k.group_key = l.group_key AND k.generation = CAST(l.generation AS BIGINT) + 1)
  GROUP BY group_key, generation HAVING count(*) = count(known)
), found AS (
  SELECT * FROM known_generations
  UNION ALL
  SELECT group_key, generation, group_type, asked_micros, formed_micros, formed_micros AS last_micros, true AS formed, true AS emptied
  FROM emptied
  UNION ALL
  -- generations that began before the capture, of which only members are seen
  SELECT s.group_key, s.first_generation AS generation, CAST(NULL AS VARCHAR) AS group_type, min(s.first_micros) AS asked_micros,
    min(s.first_micros) AS formed_micros, min(s.first_micros) AS last_micros, false AS formed, false AS emptied
  FROM group_spells s
  LEFT JOIN known_generations k ON k.group_key = s.group_key AND k.generation = s.first_generation
  WHERE k.group_key IS NULL
  GROUP BY s.group_key, s.first_generation
), in_order AS (
  SELECT *,
    lag(generation) OVER (PARTITION BY group_key ORDER BY formed_micros, generation) AS previous_generation,
    coalesce(lag(formed_micros) OVER (PARTITION BY group_key ORDER BY formed_micros, generation), CAST(0 AS BIGINT))
      AS previous_micros,
    lead(formed_micros) OVER (PARTITION BY group_key ORDER BY formed_micros, generation) AS next_micros,
    row_number() OVER (PARTITION BY group_key ORDER BY formed_micros, generation) AS place
  FROM found
), signs AS (
  -- first signs of a rebalance: a member leaves, gets REBALANCE_IN_PROGRESS, or asks to join and gets MEMBER_ID_REQUIRED
  SELECT group_key, epoch_us(coalesce(request_at, seen_at)) AS micros, CAST(NULL AS INT) AS of_generation,
    CAST(NULL AS VARCHAR) AS member_id
  FROM keyed_group_events WHERE event = 'leave' AND coalesce(error_code, 0) = 0 AND coalesce(generation, 0) <> -2
  UNION ALL
  SELECT group_key, epoch_us(seen_at) AS micros, generation AS of_generation, CAST(NULL AS VARCHAR) AS member_id
  FROM keyed_group_events WHERE event IN ('heartbeat', 'commit', 'sync') AND error_code = 27
  UNION ALL
  SELECT group_key, epoch_us(coalesce(request_at, seen_at)) AS micros, CAST(NULL AS INT) AS of_generation, member_id
  FROM keyed_group_events WHERE event = 'join' AND group_type = 'classic' AND error_code = 79
), began AS (
  SELECT g.group_key, g.generation, min(s.micros) AS micros
  FROM in_order g JOIN signs s ON s.group_key = g.group_key AND s.micros > g.previous_micros AND s.micros <= g.formed_micros
  -- a member of the classic protocol in a KIP-848 group gets REBALANCE_IN_PROGRESS until it has what it was given
  WHERE (s.of_generation IS NULL OR (g.group_type = 'classic' AND s.of_generation = g.previous_generation)) AND (s.member_id IS NULL OR EXISTS (
    SELECT 1 FROM keyed_group_events j WHERE j.group_key = g.group_key AND j.response_generation = g.generation
      AND j.member_id = s.member_id))
  GROUP BY g.group_key, g.generation
)
SELECT g.*, least(g.asked_micros, coalesce(b.micros, g.asked_micros)) AS began_micros
FROM in_order g LEFT JOIN began b ON b.group_key = g.group_key AND b.generation = g.generation
