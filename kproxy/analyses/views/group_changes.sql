/*
meaning: >-
  What happened to members of groups, and to their coordinators, between one generation and the next: how ("joined", "left",
  "session timeout", ...), which member, when, and what says so; place 1 is what began the rebalance. A member that leaves without
  a reason, and whose connection goes on two seconds later, or stays open for ten, did not poll, as does a static one that joins anew unasked; a coordinator that is found anew
  within a minute belongs to one move.
stored: true
*/
WITH generations AS (
  SELECT * FROM group_generations WHERE formed
), members_before AS (
  SELECT * FROM group_members WHERE was_there
), members_after AS (
  SELECT * FROM group_members WHERE is_there
), members AS (
  SELECT group_key, member_id, max(group_instance_id) AS group_instance_id, max(client_id) AS client_id
  FROM keyed_group_events WHERE event IN ('join', 'sync', 'heartbeat') AND member_id <> '' GROUP BY group_key, member_id
), latest_instances AS (
  SELECT group_key, group_instance_id, max_by(member_id, last_micros) AS member_id
  FROM group_spells WHERE group_instance_id IS NOT NULL AND last_micros IS NOT NULL GROUP BY group_key, group_instance_id
), leaves_sent AS (
  -- a leave that removes a static member (by an administrator) names only its instance
  SELECT e.group_key, coalesce(nullif(e.member_id, ''), i.member_id, '') AS member_id, e.group_instance_id, e.connection_id,
    e.generation, e.group_type, e.error_code, e.reason, e.client_id AS sender,
    epoch_us(coalesce(e.request_at, e.seen_at)) AS sent_micros,
    epoch_us(e.seen_at) + CASE WHEN e.seen_at = e.request_at THEN 60000000 ELSE 0 END AS answered_micros -- it did not wait for the answer
  FROM keyed_group_events e
  LEFT JOIN latest_instances i ON i.group_key = e.group_key AND i.group_instance_id = e.group_instance_id
  WHERE e.event = 'leave'
), leaves_done AS (
  -- a leave that is sent behind a JoinGroup waits until the generation is formed, and ends the member's part in that one
  SELECT e.*, greatest(e.sent_micros, coalesce((
      SELECT max(g.formed_micros) + 1 FROM members_after a JOIN generations g ON g.group_key = a.group_key AND g.generation = a.generation
      WHERE a.group_key = e.group_key AND a.member_id = e.member_id AND g.formed_micros BETWEEN e.sent_micros AND e.answered_micros
    ), 0)) AS micros
  FROM leaves_sent e
), leaves AS (
  -- a leave without a reason whose process goes on: the client left because its application did not poll
  SELECT e.group_key, e.member_id, e.group_instance_id, coalesce(m.client_id, e.sender) AS client_id, e.connection_id, e.generation,
    e.group_type, e.error_code, e.micros, e.reason, e.sender, c.client_address,
    CASE
      WHEN e.reason LIKE '%removed by an admin%' OR (m.client_id IS NOT NULL AND NOT (e.sender IS NOT DISTINCT FROM m.client_id))
        THEN 'removed by an administrator'
      WHEN e.reason LIKE '%poll timeout%' THEN 'poll timeout'
      WHEN e.reason IS NOT NULL THEN 'left'
      WHEN epoch_us(c.last_seen_at) - e.micros <= 2000000 AND (c.closed_at IS NULL
        OR epoch_us(c.closed_at) - e.micros <= 10000000) THEN 'left'
      ELSE 'poll timeout'
    END AS how
  FROM leaves_done e
  JOIN connections c ON c.connection_id = e.connection_id
  LEFT JOIN members m ON m.group_key = e.group_key AND m.member_id = e.member_id
), fenced AS (
  -- FENCED_INSTANCE_ID: another member has taken the group.instance.id of a member that still runs
  SELECT group_key, member_id, min(epoch_us(seen_at)) AS micros
  FROM keyed_group_events WHERE error_code = 82 AND member_id <> '' GROUP BY group_key, member_id
), errors_seen AS (
  -- errors that report a rebalance to members (REBALANCE_IN_PROGRESS)
  SELECT group_key, generation, min(epoch_us(seen_at)) AS micros FROM keyed_group_events
  WHERE event IN ('heartbeat', 'commit', 'sync') AND error_code = 27 GROUP BY group_key, generation
), joins AS (
  SELECT e.group_key, e.response_generation AS generation, e.member_id, e.client_id, e.connection_id, e.group_instance_id,
    e.reason, e.is_leader, e.protocol_type, len(e.owned) AS owned, array_to_string(list_sort(e.subscribed_topics), ',') AS subscribed,
    epoch_us(coalesce(e.request_at, e.seen_at)) AS micros, epoch_us(e.seen_at) AS known
  FROM keyed_group_events e
  WHERE e.event = 'join' AND e.error_code = 0 AND e.response_generation IS NOT NULL
), static_returns AS (
  -- a static member whose application did not poll falls silent, and joins on its connection as a new one though nobody refused it
  SELECT group_key, member_id, connection_id
  FROM (
    SELECT group_key, member_id, connection_id, lead(member_id) OVER (PARTITION BY group_key, connection_id, group_instance_id ORDER BY micros) AS next_id
    FROM joins WHERE group_instance_id <> ''
  ) again
  WHERE next_id <> member_id AND NOT EXISTS (
    SELECT 1 FROM keyed_group_events r WHERE r.group_key = again.group_key AND r.member_id = again.member_id AND r.error_code IN (25, 82, 110))
), attempts AS (
  -- the first attempt of each member to join, also one that only got MEMBER_ID_REQUIRED
  SELECT group_key, member_id, min(epoch_us(coalesce(request_at, seen_at))) AS micros
  FROM keyed_group_events WHERE event = 'join' GROUP BY group_key, member_id
), gone AS (
  SELECT b.group_key, b.generation, b.member_id, b.spell, b.identity
  FROM members_before b
  LEFT JOIN members_after a ON a.group_key = b.group_key AND a.generation = b.generation AND a.member_id = b.member_id
    AND a.spell = b.spell
  LEFT JOIN members_after t ON t.group_key = b.group_key AND t.generation = b.generation AND t.identity = b.identity
  WHERE a.member_id IS NULL AND t.identity IS NULL
), come AS (
  SELECT a.group_key, a.generation, a.member_id, a.spell, a.identity, max(b.member_id) AS replaced
  FROM members_after a
  LEFT JOIN members_before s ON s.group_key = a.group_key AND s.generation = a.generation AND s.member_id = a.member_id
    AND s.spell = a.spell
  LEFT JOIN members_before b ON b.group_key = a.group_key AND b.generation = a.generation AND b.identity = a.identity
  WHERE s.member_id IS NULL
  GROUP BY a.group_key, a.generation, a.member_id, a.spell, a.identity
), gone_clients AS (
  SELECT n.group_key, n.member_id, n.spell, s.client_address, s.client_id, g.formed_micros, least(s.last_micros, g.formed_micros) AS last_micros
  FROM gone n
  JOIN group_spells s ON s.group_key = n.group_key AND s.member_id = n.member_id AND s.spell = n.spell
  JOIN generations g ON g.group_key = n.group_key AND g.generation = n.generation
  WHERE s.client_id IS NOT NULL AND s.client_address IS NOT NULL AND s.last_micros IS NOT NULL
), requests AS (
  -- the last request of each of these clients until the generation formed; at equal times, requests come first
  SELECT group_key, member_id, spell, max(CASE WHEN group_key IS NULL THEN micros END) OVER (
    PARTITION BY client_address, client_id ORDER BY micros, CASE WHEN group_key IS NULL THEN 0 ELSE 1 END
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS micros
  FROM (
    SELECT client_address, client_id, formed_micros AS micros, group_key, member_id, spell FROM gone_clients
    UNION ALL
    SELECT c.client_address, e.client_id, epoch_us(e.request_at), CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT)
    FROM exchanges e JOIN connections c ON c.connection_id = e.connection_id
    JOIN (SELECT DISTINCT client_address, client_id FROM gone_clients) w
      ON w.client_address = c.client_address AND w.client_id = e.client_id
    WHERE e.request_at IS NOT NULL
  ) sent
), lives AS (
  -- begin (step 1) and end (step 2) of each member of these clients, and begin and end (0, 3) of the time in which others matter
  SELECT client_address, client_id, member_id, formed_micros AS micros, 3 AS step, group_key, spell FROM gone_clients
  UNION ALL
  SELECT client_address, client_id, member_id, last_micros, 0, group_key, spell FROM gone_clients
  UNION ALL
  SELECT s.client_address, s.client_id, s.member_id, s.micros, s.step, CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT)
  FROM (
    SELECT client_address, client_id, member_id, first_micros AS micros, 1 AS step FROM group_spells WHERE last_micros IS NOT NULL
    UNION ALL
    SELECT client_address, client_id, member_id, last_micros, 2 FROM group_spells WHERE last_micros IS NOT NULL
  ) s
  JOIN (SELECT DISTINCT client_address, client_id FROM gone_clients) w
    ON w.client_address = s.client_address AND w.client_id = s.client_id
), counted AS (
  SELECT group_key, member_id, spell, step,
    count(CASE WHEN step = 1 THEN 1 END) OVER (
      PARTITION BY client_address, client_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    - count(CASE WHEN step = 1 THEN 1 END) OVER (
      PARTITION BY client_address, client_id, member_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS others_begun,
    count(CASE WHEN step = 2 THEN 1 END) OVER (
      PARTITION BY client_address, client_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    - count(CASE WHEN step = 2 THEN 1 END) OVER (
      PARTITION BY client_address, client_id, member_id ORDER BY micros, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS others_ended
  FROM lives
), alone AS (
  SELECT group_key, member_id, spell
  FROM counted
  WHERE group_key IS NOT NULL
  GROUP BY group_key, member_id, spell
  HAVING max(CASE WHEN step = 3 THEN others_begun END) = min(CASE WHEN step = 0 THEN others_ended END)
), busy AS (
  -- the last requests of clients that are the only member with their client id and address in that time
  SELECT r.group_key, r.member_id, r.spell, max(r.micros) AS micros
  FROM requests r JOIN alone a ON a.group_key = r.group_key AND a.member_id = r.member_id AND a.spell = r.spell
  GROUP BY r.group_key, r.member_id, r.spell
), evicted AS (
  SELECT n.group_key, n.generation, n.member_id, s.client_id, s.connection_id, s.last_micros, s.closed_micros, s.identity,
    s.last_api,
    least(s.seen_until_micros, coalesce(g.next_micros, s.seen_until_micros)) - s.last_micros AS silent_micros,
    coalesce(busy.micros > s.last_micros + 1000000 + s.half_session_micros, false) AS went_on,
    -- Members send heartbeats every third of the session timeout or more often, fetches all the time: a process that dies between two
    -- heartbeats has sent requests since its last one, but not for half of the session timeout.
    CASE
      WHEN g.emptied THEN 'went silent' -- no later generation shows why
      -- it sent requests until the end, so it did not join again in time; what it sent long after went without an answer
      WHEN g.group_type = 'classic' AND NOT g.emptied AND abs(g.formed_micros - s.last_micros) < s.half_session_micros THEN 'poll timeout'
      WHEN busy.micros > s.last_micros + 1000000 + s.half_session_micros THEN 'poll timeout'
      WHEN late.group_key IS NOT NULL THEN 'poll timeout'
      ELSE 'session timeout'
    END AS how
  FROM gone n
  JOIN generations g ON g.group_key = n.group_key AND g.generation = n.generation
  JOIN (SELECT *, CAST(coalesce(session_timeout_ms, 10000) AS BIGINT) * 500 AS half_session_micros FROM group_spells) s
    ON s.group_key = n.group_key AND s.member_id = n.member_id AND s.spell = n.spell
  LEFT JOIN busy ON busy.group_key = n.group_key AND busy.member_id = n.member_id AND busy.spell = n.spell
  LEFT JOIN (
    SELECT group_key, member_id, connection_id FROM leaves WHERE error_code = 25
    UNION SELECT group_key, member_id, connection_id FROM static_returns) late
    ON late.group_key = n.group_key AND late.member_id = n.member_id AND late.connection_id = s.connection_id
  WHERE NOT EXISTS (
    SELECT 1 FROM leaves l WHERE l.group_key = n.group_key AND l.micros > g.previous_micros AND l.micros <= g.formed_micros
      AND coalesce(l.error_code, 0) = 0 AND coalesce(l.generation, 0) <> -2
      AND (l.member_id = n.member_id OR (l.member_id = '' AND l.group_instance_id = s.group_instance_id)))
    -- members of other groups than classic ones are heard of every 5 s, and not thrown out before that
    AND (g.group_type = 'classic' OR g.emptied OR g.formed_micros - s.beat_micros >= 5000000)
), subscriptions AS (
  SELECT group_key, generation, member_id, client_id, connection_id, reason, is_leader, protocol_type, owned, micros, subscribed,
    lag(subscribed) OVER (PARTITION BY group_key, member_id ORDER BY micros, known) AS subscribed_before,
    lag(owned) OVER (PARTITION BY group_key, member_id ORDER BY micros, known) AS owned_before
  FROM joins
), assigned AS (
  SELECT group_key, response_generation AS generation, member_id, len(assignment) AS given, epoch_us(seen_at) AS micros
  FROM keyed_group_events WHERE event = 'sync' AND error_code = 0
), asks AS (
  -- members of classic groups that join again for a reason of their own
  SELECT s.group_key, s.generation, s.member_id, s.client_id, s.connection_id, s.micros, s.reason,
    CASE
      WHEN s.reason LIKE 'cached metadata has changed%' THEN 'metadata change'
      WHEN s.reason LIKE '%subscription has changed%' THEN 'subscription changed'
      WHEN s.reason LIKE 'need to revoke partitions%' THEN 'follow-up'
      WHEN s.reason LIKE 'rebalance enforced%' THEN 'asked for by the application'
      WHEN s.reason LIKE 'group is already rebalancing%' OR s.reason LIKE 'need to re-join with the given member-id%'
        OR s.reason LIKE 'rebalance failed%' OR s.reason LIKE 'encountered%' THEN NULL
      WHEN s.reason IS NOT NULL THEN 'asked for by the application'
      WHEN s.subscribed <> s.subscribed_before THEN 'subscription changed'
      WHEN s.owned > 0 AND a.given < s.owned_before THEN 'follow-up'
      WHEN s.is_leader AND o.group_key IS NULL AND s.protocol_type = 'consumer' THEN 'metadata change'
      WHEN s.is_leader AND o.group_key IS NULL THEN 'asked for by the application'
    END AS how
  FROM subscriptions s
  JOIN generations g ON g.group_key = s.group_key AND g.generation = s.generation
  JOIN members_before b ON b.group_key = s.group_key AND b.generation = s.generation AND b.member_id = s.member_id
  LEFT JOIN errors_seen e ON e.group_key = g.group_key AND e.generation = g.previous_generation
  LEFT JOIN assigned a ON a.group_key = s.group_key AND a.generation = g.previous_generation AND a.member_id = s.member_id
  -- a leader without a reason joins again because of the members that came or went, if there are any
  LEFT JOIN (SELECT DISTINCT group_key, generation FROM come UNION SELECT DISTINCT group_key, generation FROM gone) o
    ON o.group_key = s.group_key AND o.generation = s.generation
  WHERE g.group_type = 'classic' AND (s.reason IS NOT NULL OR e.micros IS NULL OR s.micros < e.micros)
), changed_subscriptions AS (
  SELECT group_key, member_id, client_id, connection_id, micros, said, said_before
  FROM (
    SELECT group_key, member_id, client_id, connection_id, epoch_us(coalesce(request_at, seen_at)) AS micros,
      coalesce(array_to_string(list_sort(subscribed_topics), ','), '') || ' ' || coalesce(subscribed_regex, '') AS said,
      lag(coalesce(array_to_string(list_sort(subscribed_topics), ','), '') || ' ' || coalesce(subscribed_regex, '')) OVER (
        PARTITION BY group_key, member_id ORDER BY seen_at, exchange) AS said_before
    FROM keyed_group_events
    WHERE group_type <> 'classic' AND event IN ('join', 'heartbeat')
      AND (subscribed_topics IS NOT NULL OR subscribed_regex IS NOT NULL)
  ) all_said
  WHERE said <> said_before
), candidates AS (
  SELECT g.group_key, g.generation, l.micros, 1 AS rank, l.how, l.member_id, l.client_id, l.connection_id,
    CASE WHEN l.how = 'removed by an administrator'
        THEN 'by ' || coalesce(nullif(l.sender, ''), '(no client id)') || ' at ' || l.client_address || coalesce(': ' || l.reason, '')
      ELSE 'it left' || CASE WHEN l.reason IS NULL THEN
      CASE WHEN l.how = 'left' THEN ' and closed its connection' ELSE ' without a reason, and its connection stayed open' END
      ELSE ': ' || l.reason END END AS evidence
  FROM generations g JOIN leaves l ON l.group_key = g.group_key AND l.micros > g.previous_micros AND l.micros <= g.formed_micros
  WHERE coalesce(l.error_code, 0) = 0 AND coalesce(l.generation, 0) <> -2
  UNION ALL
  SELECT n.group_key, n.generation, g.began_micros AS micros, 4 AS rank, n.how, n.member_id, n.client_id, n.connection_id,
    CASE WHEN g.emptied THEN 'no traffic of it for ' || CAST(n.silent_micros // 1000 AS VARCHAR) || ' ms since its last ' || n.last_api || ', '
        WHEN n.last_micros > g.formed_micros THEN 'its next requests went without an answer, '
        ELSE 'not heard of for ' || CAST((g.formed_micros - n.last_micros) // 1000 AS VARCHAR) || ' ms, ' END || CASE
      WHEN n.how = 'poll timeout' OR (g.emptied AND n.went_on) THEN 'while its process went on'
      WHEN n.closed_micros IS NULL OR n.closed_micros > g.formed_micros THEN 'its connection stayed open: it stood still or was cut off'
      ELSE 'its connection was closed without leaving' END AS evidence
  FROM evicted n
  JOIN generations g ON g.group_key = n.group_key AND g.generation = n.generation
  UNION ALL
  SELECT m.group_key, m.generation, coalesce(a.micros, s.first_micros) AS micros, 2 AS rank,
    CASE WHEN f.member_id IS NOT NULL THEN 'static member replaced'
      WHEN m.replaced IS NOT NULL AND m.replaced <> m.member_id THEN 'static member back'
      WHEN m.replaced IS NOT NULL AND s.group_instance_id IS NOT NULL THEN 'static member back' ELSE 'joined' END AS how,
    m.member_id, s.client_id, s.connection_id,
    CASE WHEN f.member_id IS NOT NULL THEN 'instance ' || m.identity || ' joined while another process had that instance id'
      WHEN m.replaced IS NOT NULL THEN 'instance ' || m.identity || ' under a new member id'
      WHEN g.previous_generation IS NULL THEN 'the first that was seen of the group'
      WHEN s.spell > 1 THEN 'it had been in the group before'
      ELSE 'a new member' END AS evidence
  FROM come m
  JOIN generations g ON g.group_key = m.group_key AND g.generation = m.generation
  JOIN group_spells s ON s.group_key = m.group_key AND s.member_id = m.member_id AND s.spell = m.spell
  LEFT JOIN fenced f ON f.group_key = m.group_key AND f.member_id = m.replaced AND m.replaced <> m.member_id
  LEFT JOIN attempts a ON a.group_key = m.group_key AND a.member_id = m.member_id AND s.spell <= 1
    AND a.micros > g.previous_micros
  -- one whose JoinGroup was not seen was there before, or nobody knows
  WHERE NOT EXISTS ( -- a static member that comes later keeps the generation
    SELECT 1 FROM group_late_joins t WHERE t.group_key = m.group_key AND t.member_id = m.member_id AND t.generation = m.generation)
    AND (g.group_type <> 'classic' OR g.previous_generation IS NULL OR EXISTS (
    SELECT 1 FROM keyed_group_events j WHERE j.event = 'join' AND j.group_key = m.group_key AND j.member_id = m.member_id
      AND epoch_us(coalesce(j.request_at, j.seen_at)) <= g.formed_micros))
  UNION ALL
  SELECT group_key, generation, micros, 3 AS rank, how, member_id, client_id, connection_id,
    coalesce('it joined again: ' || reason, 'it joined again by itself') AS evidence
  FROM asks WHERE how IS NOT NULL
  UNION ALL
  SELECT g.group_key, g.generation, c.micros, 3 AS rank, 'subscription changed' AS how, c.member_id, c.client_id, c.connection_id,
    'from ' || trim(c.said_before) || ' to ' || trim(c.said) AS evidence
  FROM generations g JOIN changed_subscriptions c ON c.group_key = g.group_key
    AND c.micros > g.previous_micros AND c.micros <= g.formed_micros
  UNION ALL
  SELECT g.group_key, g.generation, m.began_micros AS micros, 0 AS rank, 'coordinator moved' AS how, CAST(NULL AS VARCHAR) AS member_id,
    CAST(NULL AS VARCHAR) AS client_id, CAST(NULL AS VARCHAR) AS connection_id,
    m.evidence
  FROM generations g JOIN group_coordinator_moves m ON m.group_key = g.group_key
    AND m.rebalanced AND m.micros > g.previous_micros AND m.began_micros <= g.formed_micros
    AND g.began_micros >= m.began_micros AND g.formed_micros <= m.micros + 60000000
  WHERE g.previous_generation IS NOT NULL AND NOT g.emptied
)
SELECT * EXCLUDE (is_back), row_number() OVER (PARTITION BY group_key, generation ORDER BY is_back, micros, rank, member_id) AS place
FROM (
  -- a member that was thrown out in this rebalance and comes back on its connection is no cause of it
  SELECT *, how = 'joined' AND connection_id IS NOT NULL AND count(CASE WHEN how = 'session timeout' THEN 1 END)
    OVER (PARTITION BY group_key, generation, connection_id) > 0 AS is_back
  FROM candidates
) AS ordered
