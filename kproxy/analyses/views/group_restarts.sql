/*
meaning: >-
  From when to when (from_micros, to_micros) members of a group were restarted: cause "deployment" where several were, once or
  twice each, or to another host (of members with one client id: all, or one after the other); "restart loop" where they were, or one was, more often, or twice each without leaving once.
  Members that leave and join within two minutes of each other belong together. A program that comes, leaves as one should and comes again, while the group has no other member, is a job that
  somebody starts again and again, and neither.
stored: true
*/
WITH departures AS (
  -- a member that died is gone from its last request on
  SELECT c.group_key, c.generation, c.member_id, c.client_id, max(c.connection_id) AS connection_id,
    least(min(c.micros), coalesce(max_by(s.last_micros, s.first_micros), min(c.micros))) AS micros, -- its last request in its last stay
    max(c.micros) AS known_micros, bool_and(c.how = 'left') AS is_clean,
    bool_and(c.how <> 'left') AS is_dead
  FROM group_changes c
  LEFT JOIN group_spells s ON c.how IN ('session timeout', 'went silent') AND s.group_key = c.group_key AND s.member_id = c.member_id
    AND s.first_micros <= c.micros
  WHERE c.how IN ('left', 'session timeout', 'went silent')
  GROUP BY c.group_key, c.generation, c.member_id, c.client_id
), arrivals AS (
  SELECT group_key, generation, member_id, client_id, connection_id, micros FROM group_changes WHERE how = 'joined'
), restarts AS (
  -- members that left and came back: with the same client id, or as the same instance
  SELECT d.group_key, d.client_id, d.member_id AS went, a.member_id AS came, d.micros AS from_micros, greatest(a.micros, d.known_micros) AS to_micros,
    d.is_clean, d.is_dead, row_number() OVER (PARTITION BY d.group_key, d.member_id ORDER BY a.micros, a.member_id) AS nearest
  FROM departures d
  JOIN arrivals a ON a.group_key = d.group_key AND a.client_id IS NOT DISTINCT FROM d.client_id AND a.micros > d.micros AND a.member_id <> d.member_id
    AND a.micros - d.micros <= 120000000
    AND a.connection_id IS DISTINCT FROM d.connection_id -- the same connection: a process that was thrown out, not restarted
  UNION ALL
  SELECT group_key, NULL AS client_id, group_instance_id AS went, member_id AS came, micros AS from_micros, known AS to_micros, FALSE AS is_clean, FALSE AS is_dead, 1 AS nearest
  FROM group_late_joins WHERE place = 1
  UNION ALL
  SELECT group_key, NULL AS client_id, client_id AS went, member_id AS came, micros AS from_micros, micros AS to_micros, FALSE AS is_clean, FALSE AS is_dead, 1 AS nearest
  FROM group_changes WHERE how = 'static member back'
), restart_gaps AS (
  SELECT *, CASE WHEN from_micros - max(to_micros) OVER (
    PARTITION BY group_key ORDER BY from_micros, came ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) <= 120000000 THEN 0 ELSE 1 END AS begins,
    coalesce(lead(from_micros) OVER (PARTITION BY group_key ORDER BY from_micros, came) < to_micros, false) AS at_once
  FROM restarts WHERE nearest = 1
), restart_series AS (
  SELECT *, sum(begins) OVER (PARTITION BY group_key ORDER BY from_micros, came ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    AS series
  FROM restart_gaps
), chains AS (
  -- whether a member that left had itself replaced another
  SELECT s.*, c.came IS NOT NULL AS came_itself
  FROM restart_series s
  LEFT JOIN (SELECT DISTINCT group_key, series, came FROM restart_series) c
    ON c.group_key = s.group_key AND c.series = s.series AND c.came = s.went
), places AS (
  -- members that are the first of their client id at an address: what comes there was moved, as Connect moves tasks
  SELECT group_key, member_id
  FROM (SELECT group_key, member_id, row_number() OVER (PARTITION BY group_key, client_id, client_address ORDER BY first_micros, member_id) AS nth
    FROM group_spells WHERE client_address IS NOT NULL) first_come
  WHERE nth = 1
), restart_sums AS (
  SELECT c.group_key, min(from_micros) AS from_micros, max(to_micros) AS to_micros, count(DISTINCT p.member_id) AS moved,
    count(DISTINCT CASE WHEN NOT came_itself THEN went END) AS members, count(DISTINCT came) AS came,
    count(DISTINCT CASE WHEN came_itself THEN went END) * CASE WHEN bool_and(is_dead) AND count(DISTINCT CASE WHEN NOT came_itself THEN went END) > 1
      THEN 2 ELSE 1 END AS weight, count(DISTINCT CASE WHEN came_itself THEN went END) AS again, -- a deployment lets members leave
    bool_and(is_clean) AS is_clean, bool_or(at_once) AS at_once, list(DISTINCT client_id) AS client_ids, list_concat(list(went), list(came)) AS chain
  FROM chains c
  LEFT JOIN places p ON p.group_key = c.group_key AND p.member_id = c.came
  GROUP BY c.group_key, c.series
), stays AS (
  SELECT s.group_key, e.client_id, s.member_id, min(s.first_micros) AS first_micros, max(s.last_micros) AS last_micros
  FROM group_spells s
  JOIN (SELECT DISTINCT group_key, member_id, client_id FROM keyed_group_events WHERE event IN ('join', 'sync', 'heartbeat')) e
    ON e.group_key = s.group_key AND e.member_id = s.member_id
  GROUP BY s.group_key, e.client_id, s.member_id
)
SELECT group_key, from_micros, to_micros, members, 'deployment' AS cause,
  CAST(members AS VARCHAR) || ' members were restarted in ' || CAST((to_micros - from_micros) // 1000000 AS VARCHAR) || ' s' AS words
FROM restart_sums r
WHERE members >= 2 AND came >= 2 AND (weight < 2 * members OR moved * 3 > came)
  AND NOT (at_once AND EXISTS (
    -- several went before one came, under the name of one that stayed: the group was made smaller, and larger again
    SELECT 1 FROM stays s
    WHERE s.group_key = r.group_key AND list_contains(r.client_ids, s.client_id)
      AND s.first_micros < r.from_micros AND s.last_micros > r.to_micros))
UNION ALL
SELECT group_key, from_micros, to_micros, members, 'restart loop' AS cause,
  CASE WHEN members < 2 THEN 'one member was' ELSE CAST(members AS VARCHAR) || ' members were' END || ' restarted ' ||
    CAST(again + members AS VARCHAR) || ' times in ' ||
    CAST((to_micros - from_micros) // 1000000 AS VARCHAR) || ' s' AS words
FROM restart_sums AS r
WHERE weight >= 2 * members AND members > 0 AND (members < 2 OR moved * 3 <= came)
  AND (members > 1 OR NOT is_clean OR EXISTS (
    SELECT 1 FROM group_spells AS s
    WHERE s.group_key = r.group_key AND s.last_micros >= r.from_micros AND s.first_micros <= r.to_micros
      AND NOT list_contains(r.chain, s.member_id)))
