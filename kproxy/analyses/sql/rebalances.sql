/*
id: rebalances
title: What made groups rebalance
severity: info
meaning: >-
  Why each rebalance happened, who caused it, how long no member consumed, and which partitions moved.
columns:
  began_at: first sign of it (UTC)
  group_id: ""
  generation_to: generation, or epoch, that was formed; empty where no member was left
  cause: "what happened to the member that is named; deployment: several members were restarted one after the other; restart loop: one member was, or several were, again and again; follow-up: the second step of the rebalance before (cooperative assignors revoke first, then assign); joined again: its leader did so without a reason, and the partitions stayed the same, as after an error of its own; went silent: the last members sent nothing for longer than their session timeout, and did not leave"
  client_id: the member that caused it
  client_address: ""
  duration_ms: milliseconds from began_at to ended_at
  pause_ms: milliseconds for which no member of the group consumed
  partition_pause_ms: longest time that a moved partition had no consumer, in milliseconds
  moved: partitions that went from one member to another
  members_after: number of members after
  evidence: what the traffic shows, in words
  cluster: its id, else the first address of its brokers
  group_type: classic, consumer (KIP-848), share or streams
  ended_at: when the last member had its assignment (UTC)
  generation_from: generation, or epoch, before
  trigger: what began it, also where cause is a deployment
  member_id: the member that caused it
  client_port: port of that member's connection
  first_moved: up to ten of the partitions that moved
  added: partitions that no member had before
  members_before: number of members before; empty where the capture began during the rebalance, and so may not show all of them
  joined: members that joined in this rebalance
  protocol: assignor in use
action: >-
  session timeout, went silent: look for a process that died, stood still or was cut off, at the member's address. poll timeout: processing took
  longer than max.poll.interval.ms; fetch less at a time (max.poll.records), or process elsewhere. deployment: use static members
  (group.instance.id) or KIP-848. metadata change: partitions were added, or topics that a pattern matches.
reference: https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
sampled: Members that joined or left, and so the cause of a rebalance, may be in exchanges that are missing.
verdict: "{rows:rebalance/rebalances} of {count group_id:group/groups}, by cause: {counts cause:200}[; {sum joined:member/members} joined][; nobody consumed for {max pause_ms:ms} at most]"
otherwise: No rebalance was seen.
order: 20
only_if: FROM group_events
*/
WITH generations AS (
  SELECT * FROM group_generations WHERE formed
), membership AS (
  SELECT g.group_key, g.generation,
    CASE WHEN max(CASE WHEN g.group_type = 'classic' AND g.is_first AND c.place IS NULL THEN 1 ELSE 0 END) = 0
      THEN count(DISTINCT CASE WHEN g.was_there THEN g.identity END) END AS members_before,
    count(DISTINCT CASE WHEN g.is_there THEN g.identity END) AS members_after,
    count(DISTINCT CASE WHEN g.stays THEN g.identity END) AS members_kept
  FROM group_members g
  -- a member that was not seen to join, as its JoinGroup was before the capture, may have been there before
  LEFT JOIN group_changes c ON c.group_key = g.group_key AND c.generation = g.generation AND c.member_id = g.member_id AND c.rank = 2
  GROUP BY g.group_key, g.generation
), ends AS (
  -- when each member of the earlier generation stopped consuming
  SELECT g.group_key, g.generation, s.identity, max(CASE
      WHEN l.how IN ('left', 'poll timeout', 'removed by an administrator') AND l.rank = 1 THEN l.micros
      WHEN l.how IN ('session timeout', 'poll timeout', 'went silent') THEN s.last_micros
    END) AS gone_micros
  FROM generations g
  JOIN group_changes l ON l.group_key = g.group_key AND l.generation = g.generation AND l.rank IN (1, 4)
  JOIN group_spells s ON s.group_key = g.group_key AND s.member_id = l.member_id
    AND s.first_generation <= g.previous_generation AND s.last_generation >= g.previous_generation
  GROUP BY g.group_key, g.generation, s.identity
), rejoins AS (
  SELECT e.group_key, e.response_generation AS generation, s.identity, min(epoch_us(e.request_at)) AS micros,
    max(len(e.owned)) AS owned
  FROM keyed_group_events e
  JOIN group_spells s ON s.group_key = e.group_key AND s.member_id = e.member_id
  WHERE e.event = 'join' AND e.group_type = 'classic' AND e.error_code = 0
  GROUP BY e.group_key, e.response_generation, s.identity
), cooperative AS (
  SELECT g.group_key, g.generation, max(CASE WHEN g.group_type <> 'classic' OR r.owned > 0 THEN 1 ELSE 0 END) AS keeps
  FROM generations g LEFT JOIN rejoins r ON r.group_key = g.group_key AND r.generation = g.generation
  GROUP BY g.group_key, g.generation
), stops AS (
  SELECT g.group_key, g.generation, max(coalesce(n.gone_micros, r.micros)) AS micros
  FROM generations g
  JOIN group_spells s ON s.group_key = g.group_key AND s.first_generation <= g.previous_generation
    AND s.last_generation >= g.previous_generation AND s.first_micros < g.formed_micros
  LEFT JOIN ends n ON n.group_key = g.group_key AND n.generation = g.generation AND n.identity = s.identity
  LEFT JOIN rejoins r ON r.group_key = g.group_key AND r.generation = g.generation AND r.identity = s.identity
    AND r.micros <= g.formed_micros
  GROUP BY g.group_key, g.generation
), resumed AS (
  SELECT group_key, generation, min(started_micros) AS micros FROM group_owners GROUP BY group_key, generation
), moved AS (
  SELECT o.group_key, o.generation, o.partition, o.started_micros,
    coalesce(n.gone_micros, CASE WHEN c.keeps = 0 THEN r.micros END) AS stopped_micros
  FROM group_owners o
  JOIN cooperative c ON c.group_key = o.group_key AND c.generation = o.generation
  LEFT JOIN ends n ON n.group_key = o.group_key AND n.generation = o.generation AND n.identity = o.previous_identity
  LEFT JOIN rejoins r ON r.group_key = o.group_key AND r.generation = o.generation AND r.identity = o.previous_identity
  WHERE o.previous_identity IS NOT NULL AND o.previous_identity <> o.identity AND NOT EXISTS (
    SELECT 1 FROM group_generations z WHERE z.group_key = o.group_key AND z.emptied
      AND z.place > o.previous_place AND z.place < o.place)
), moves AS (
  SELECT group_key, generation, count(*) AS moved, array_to_string(list_sort(list(partition))[1:10], ', ') AS first_moved,
    max(CASE WHEN started_micros > stopped_micros THEN started_micros - stopped_micros END) AS longest_micros
  FROM moved GROUP BY group_key, generation
), added AS (
  SELECT group_key, generation, count(*) AS added FROM group_owners
  WHERE previous_identity IS NULL AND place > 1 GROUP BY group_key, generation
), protocols AS (
  SELECT group_key, response_generation AS generation, max(protocol) AS protocol
  FROM keyed_group_events WHERE event IN ('join', 'sync') AND error_code = 0 GROUP BY group_key, response_generation
), others AS (
  -- members of a deployment often have the same client id: each counts
  SELECT group_key, generation, array_to_string(list_sort(list(words))[1:3], ', ') ||
      CASE WHEN sum(members) > sum(members) FILTER (nth <= 3) THEN ', and ' ||
        CAST(sum(members) - sum(members) FILTER (nth <= 3) AS VARCHAR) || ' more' ELSE '' END AS more
  FROM (
    SELECT *, row_number() OVER (PARTITION BY group_key, generation ORDER BY words) AS nth
    FROM (
      SELECT group_key, generation, count(*) AS members, coalesce(client_id, 'a member') || ' ' || how ||
        CASE WHEN count(*) > 1 THEN ' (' || CAST(count(*) AS VARCHAR) || ' members)' ELSE '' END AS words
      FROM group_changes WHERE place > 1 GROUP BY group_key, generation, client_id, how
    ) alike
  ) numbered
  GROUP BY group_key, generation
), joined AS (
  SELECT group_key, generation, count(DISTINCT member_id) AS members FROM group_changes WHERE how = 'joined' GROUP BY group_key, generation
), assignments_known AS (
  -- whether the earlier assignment of every member is known; not if the capture began during the life of the group
  SELECT g.group_key, g.generation, min(CASE WHEN EXISTS (
      SELECT 1 FROM keyed_group_events a WHERE a.group_key = s.group_key AND a.member_id = s.member_id AND a.assignment IS NOT NULL
        AND epoch_us(a.seen_at) < g.formed_micros) THEN 1 ELSE 0 END) AS known,
    max(CASE WHEN EXISTS (SELECT 1 FROM group_owners o WHERE o.group_key = g.group_key AND o.place < g.place) THEN 1 ELSE 0 END)
      AS had_some
  FROM generations g
  JOIN group_spells s ON s.group_key = g.group_key AND s.first_generation <= g.previous_generation
    AND s.last_generation >= g.previous_generation AND s.first_micros < g.formed_micros
  GROUP BY g.group_key, g.generation
), never_had AS (
  -- generations with partitions that no member had at any time before, also not until a rebalance had ended
  SELECT DISTINCT o.group_key, o.generation
  FROM group_owners o
  JOIN generations g ON g.group_key = o.group_key AND g.generation = o.generation
  WHERE o.previous_identity IS NULL AND o.place > 1 AND NOT EXISTS (
    SELECT 1 FROM keyed_group_events e
    WHERE e.group_key = o.group_key AND list_contains(e.assignment, o.partition) AND epoch_us(e.seen_at) < g.began_micros)
), after_joins AS (
  -- a new member of another group than a classic one gets its partitions when the others have given them up
  SELECT DISTINCT g.group_key, g.generation
  FROM generations g
  JOIN generations b ON b.group_key = g.group_key AND b.place = g.place - 1
  JOIN group_changes c ON c.group_key = b.group_key AND c.generation = b.generation AND c.how = 'joined'
  WHERE g.group_type IN ('consumer', 'share')
    AND NOT EXISTS (SELECT 1 FROM never_had v WHERE v.group_key = g.group_key AND v.generation = g.generation)
), untold_alone AS (
  -- generations for which no change of a member was seen
  SELECT g.group_key, g.generation, g.group_type, g.place, j.group_key IS NOT NULL AS is_after_join, CASE
      WHEN j.group_key IS NOT NULL AND g.group_type = 'consumer' THEN 'follow-up'
      WHEN coalesce(a.added, 0) = 0 OR coalesce(k.known, 0) = 0 THEN 'unknown'
      WHEN k.had_some = 0 THEN 'follow-up'
      ELSE 'metadata change' END AS how
  FROM generations g
  LEFT JOIN after_joins j ON j.group_key = g.group_key AND j.generation = g.generation
  LEFT JOIN added a ON a.group_key = g.group_key AND a.generation = g.generation
  LEFT JOIN assignments_known k ON k.group_key = g.group_key AND k.generation = g.generation
  WHERE NOT EXISTS (SELECT 1 FROM group_changes c WHERE c.group_key = g.group_key AND c.generation = g.generation)
), untold AS (
  -- share groups make an epoch when a topic gets partitions, and assign these in the next one
  SELECT u.group_key, u.generation,
    CASE WHEN u.how = 'unknown' AND n.how = 'metadata change' THEN 'metadata change'
      WHEN (u.how = 'metadata change' AND b.how = 'unknown') OR (u.how = 'unknown' AND u.is_after_join) THEN 'follow-up' ELSE u.how END AS how,
    CASE WHEN u.how = 'unknown' AND n.how = 'metadata change' THEN 'the next epoch assigns partitions that no member had before'
      WHEN u.how = 'metadata change' AND b.how = 'unknown' THEN 'the partitions that were new in the epoch before'
      WHEN u.how = 'metadata change' THEN 'partitions were assigned that no member had before'
      WHEN u.how = 'follow-up' OR u.is_after_join THEN 'the first assignment, after members had joined'
      ELSE 'what began it was not seen' END AS evidence
  FROM untold_alone u
  LEFT JOIN untold_alone n ON n.group_key = u.group_key AND n.place = u.place + 1 AND u.group_type = 'share'
  LEFT JOIN untold_alone b ON b.group_key = u.group_key AND b.place = u.place - 1 AND u.group_type = 'share'
), kept AS (
  -- generations with the partitions of the one before: no metadata had changed
  SELECT g.group_key, g.generation
  FROM generations g
  JOIN group_owners b ON b.group_key = g.group_key AND b.place = g.place - 1
  LEFT JOIN group_owners o ON o.group_key = g.group_key AND o.place = g.place AND o.partition = b.partition
  WHERE NOT EXISTS (SELECT 1 FROM added a WHERE a.group_key = g.group_key AND a.generation = g.generation)
    AND NOT EXISTS ( -- nor was a topic deleted and made again
      SELECT 1 FROM errors r WHERE r.error_code IN (3, 100, 103) AND epoch_us(r.seen_at) BETWEEN g.previous_micros AND g.formed_micros)
  GROUP BY g.group_key, g.generation
  HAVING count(DISTINCT b.partition) = count(DISTINCT o.partition)
), causes AS (
  SELECT g.group_key, g.generation, r.member_id, r.client_id, r.connection_id,
    CASE WHEN r.how = 'metadata change' AND r.evidence = 'it joined again by itself' AND s.group_key IS NOT NULL THEN 'joined again'
      ELSE coalesce(r.how, u.how) END AS trigger,
    coalesce(r.evidence, u.evidence) AS evidence
  FROM generations g
  LEFT JOIN untold u ON u.group_key = g.group_key AND u.generation = g.generation
  LEFT JOIN group_changes r ON r.group_key = g.group_key AND r.generation = g.generation AND r.place = 1
  LEFT JOIN kept s ON s.group_key = g.group_key AND s.generation = g.generation
), timeline AS (
  SELECT g.group_key, g.group_type, g.began_micros, g.last_micros, g.previous_generation AS generation_from,
    CASE WHEN NOT g.emptied THEN g.generation END AS generation_to, c.trigger, c.client_id, c.member_id, c.connection_id, c.evidence,
    CASE WHEN coalesce(m.members_before, 0) = 0 OR g.emptied THEN NULL
      WHEN k.keeps = 1 AND m.members_kept > 0 THEN 0
      WHEN w.micros IS NOT NULL THEN greatest(w.micros - s.micros, 0) END AS pause_micros,
    coalesce(v.moved, 0) AS moved, v.first_moved, v.longest_micros, coalesce(a.added, 0) AS added,
    m.members_before, m.members_after, coalesce(i.members, 0) AS joined, p.protocol, o.more
  FROM generations g
  JOIN causes c ON c.group_key = g.group_key AND c.generation = g.generation
  JOIN cooperative k ON k.group_key = g.group_key AND k.generation = g.generation
  LEFT JOIN membership m ON m.group_key = g.group_key AND m.generation = g.generation
  LEFT JOIN stops s ON s.group_key = g.group_key AND s.generation = g.generation
  LEFT JOIN resumed w ON w.group_key = g.group_key AND w.generation = g.generation
  LEFT JOIN moves v ON v.group_key = g.group_key AND v.generation = g.generation
  LEFT JOIN added a ON a.group_key = g.group_key AND a.generation = g.generation
  LEFT JOIN protocols p ON p.group_key = g.group_key AND p.generation = g.generation
  LEFT JOIN others o ON o.group_key = g.group_key AND o.generation = g.generation
  LEFT JOIN joined i ON i.group_key = g.group_key AND i.generation = g.generation
  UNION ALL
  SELECT j.group_key, j.group_type, j.micros AS began_micros, j.known AS last_micros, j.generation AS generation_from,
    j.generation AS generation_to, CASE WHEN j.fences THEN 'static member replaced' ELSE 'static member back' END AS trigger,
    j.client_id, j.member_id, j.connection_id,
    'instance ' || j.group_instance_id || CASE WHEN j.fences THEN ' joined while another process had that instance id'
      ELSE ' joined again while its place was kept' END AS evidence,
    CAST(0 AS BIGINT) AS pause_micros, 0 AS moved, CAST(NULL AS VARCHAR) AS first_moved, CAST(NULL AS BIGINT) AS longest_micros,
    0 AS added, m.members_after AS members_before, m.members_after, 0 AS joined, j.protocol, CAST(NULL AS VARCHAR) AS more
  FROM group_late_joins j
  LEFT JOIN membership m ON m.group_key = j.group_key AND m.generation = j.generation
  WHERE j.place = 1
  UNION ALL
  SELECT x.group_key, CAST(NULL AS VARCHAR) AS group_type, x.began_micros, x.micros AS last_micros, x.generation AS generation_from,
    x.generation AS generation_to, 'coordinator moved' AS trigger, CAST(NULL AS VARCHAR) AS client_id,
    CAST(NULL AS VARCHAR) AS member_id, CAST(NULL AS VARCHAR) AS connection_id, x.evidence, CAST(0 AS BIGINT) AS pause_micros,
    0 AS moved, CAST(NULL AS VARCHAR) AS first_moved, CAST(NULL AS BIGINT) AS longest_micros, 0 AS added,
    CAST(NULL AS BIGINT) AS members_before, CAST(NULL AS BIGINT) AS members_after, 0 AS joined, CAST(NULL AS VARCHAR) AS protocol, CAST(NULL AS VARCHAR) AS more
  FROM group_coordinator_moves x WHERE NOT x.rebalanced
), torn AS (
  -- how long a member was silent, and what came first, is not known where the clock of the capture was set
  SELECT DISTINCT t.group_key, t.began_micros
  FROM timeline t
  JOIN group_lives l ON l.group_key = t.group_key
  JOIN clock_jumps j ON j.cluster = l.cluster
    AND least(j.before_us, j.at_us) <= t.last_micros AND greatest(j.before_us, j.at_us) >= t.began_micros
  WHERE t.trigger IN ('session timeout', 'poll timeout', 'went silent')
)
SELECT l.group_id, t.group_type,
  make_timestamptz(t.began_micros) AS began_at,
  make_timestamptz(t.last_micros) AS ended_at,
  round((t.last_micros - t.began_micros) / 1000, 3) AS duration_ms,
  t.generation_from, t.generation_to,
  CASE WHEN z.group_key IS NOT NULL THEN 'unknown'
    WHEN d.group_key IS NOT NULL AND t.trigger IN ('left', 'session timeout', 'went silent', 'joined', 'static member back', 'follow-up', 'unknown')
    THEN d.cause ELSE t.trigger END AS cause,
  t.trigger, t.client_id, t.member_id, c.client_address, c.client_port,
  round(t.pause_micros / 1000, 3) AS pause_ms,
  round(t.longest_micros / 1000, 3) AS partition_pause_ms,
  t.moved, t.first_moved, t.added, t.members_before, t.members_after, t.joined, t.protocol,
  t.evidence ||
    CASE WHEN t.more <> '' THEN '; also: ' || t.more ELSE '' END ||
    CASE WHEN z.group_key IS NOT NULL THEN '; but the clock of the capture was set meanwhile'
      WHEN d.group_key IS NOT NULL THEN '; ' || d.words ELSE '' END AS evidence,
  l.cluster
FROM timeline t
JOIN group_lives l ON l.group_key = t.group_key
LEFT JOIN connections c ON c.connection_id = t.connection_id
LEFT JOIN torn z ON z.group_key = t.group_key AND z.began_micros = t.began_micros
LEFT JOIN group_restarts d ON d.group_key = t.group_key AND t.began_micros >= d.from_micros AND t.began_micros <= d.to_micros
ORDER BY l.group_id, t.group_key, began_at, t.generation_to, t.trigger, t.member_id
