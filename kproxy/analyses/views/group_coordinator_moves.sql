/*
meaning: >-
  Coordinators of groups that moved to another broker: when clients first noticed (began_micros) and found the new one (micros), the
  generation at that time, and whether a generation was formed within the next minute, before anything else happened to the group.
stored: true
*/
WITH coordinators AS (
  SELECT group_key, coordinator_id, coordinator, epoch_us(seen_at) AS micros,
    lag(coordinator_id) OVER (PARTITION BY group_key ORDER BY seen_at, coordinator_id) AS previous_id,
    lag(coordinator) OVER (PARTITION BY group_key ORDER BY seen_at, coordinator_id) AS previous
  FROM keyed_group_events WHERE event = 'coordinator' AND error_code = 0
), refusals AS (
  -- COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
  SELECT group_key, event, epoch_us(seen_at) AS micros FROM keyed_group_events
  WHERE event IN ('join', 'sync', 'heartbeat', 'leave', 'commit') AND error_code IN (14, 15, 16)
), moves AS (
  SELECT c.group_key, c.micros, c.coordinator, c.previous,
    c.micros - lag(c.micros) OVER (PARTITION BY c.group_key ORDER BY c.micros, c.coordinator_id) AS since
  FROM coordinators c
  WHERE c.coordinator_id <> c.previous_id OR (c.previous_id IS NULL AND EXISTS (
    SELECT 1 FROM refusals r WHERE r.group_key = c.group_key AND r.micros <= c.micros AND r.event <> 'join'))
), settled AS (
  SELECT m.group_key, m.micros, max(g.formed_micros) AS settled_micros
  FROM moves m JOIN group_generations g ON g.group_key = m.group_key AND g.formed_micros <= m.micros
  GROUP BY m.group_key, m.micros
), coordinator_moves AS (
  SELECT m.group_key, m.micros, m.coordinator, m.previous, coalesce(min(r.micros), m.micros) AS began_micros
  FROM moves m
  JOIN settled s ON s.group_key = m.group_key AND s.micros = m.micros
  LEFT JOIN refusals r ON r.group_key = m.group_key AND r.micros BETWEEN m.micros - 60000000 AND m.micros
    AND r.micros > s.settled_micros
  WHERE m.since IS NULL OR m.since > 60000000
  GROUP BY m.group_key, m.micros, m.coordinator, m.previous
), formed AS (
  SELECT m.group_key, m.micros, max(CASE WHEN g.formed_micros <= m.began_micros THEN g.place END) AS place,
    max(CASE WHEN g.formed AND NOT g.emptied AND g.previous_generation IS NOT NULL AND g.formed_micros >= m.began_micros
      AND g.began_micros >= m.began_micros AND g.previous_micros < m.micros AND g.formed_micros <= m.micros + 60000000
      THEN 1 ELSE 0 END) AS rebalanced
  FROM coordinator_moves m JOIN group_generations g ON g.group_key = m.group_key
  GROUP BY m.group_key, m.micros
)
SELECT m.group_key, m.began_micros, m.micros, g.generation, coalesce(f.rebalanced, 0) = 1 AS rebalanced,
  'from ' || coalesce(m.previous, 'another broker') || ' to ' || m.coordinator AS evidence
FROM coordinator_moves m
LEFT JOIN formed f ON f.group_key = m.group_key AND f.micros = m.micros
LEFT JOIN group_generations g ON g.group_key = m.group_key AND g.place = f.place
