/*
meaning: >-
  For each generation of classic groups, the member that joined last of those that were members before, how long the first one had waited
  (seconds), and from when to when (first_us, asked_us). In groups of KIP-848's protocol, the members that were told to have fewer partitions,
  and from when to when another member that got them later waited until they gave them up. And leaders of a generation, for as long as others
  waited for what they assign, or until these were refused. waited_for: what others waited for.
stored: true
*/
WITH told AS ( -- members of KIP-848's protocol: what each had, and when it next said what it has
    SELECT *, last_value(owned IGNORE NULLS) OVER before AS had, first_value(owned IGNORE NULLS) OVER later AS has,
        first_value(CASE WHEN owned IS NOT NULL THEN epoch_us(request_at) END IGNORE NULLS) OVER later AS asked_us,
        min(at_us) OVER (PARTITION BY group_key, member_id) AS joined_us
    FROM client_group_events
    WHERE group_type = 'consumer' AND event IN ('join', 'heartbeat') AND error_code = 0 AND request_at IS NOT NULL
    WINDOW before AS (PARTITION BY group_key, member_id ORDER BY at_us, exchange ROWS UNBOUNDED PRECEDING),
        later AS (PARTITION BY group_key, member_id ORDER BY at_us, exchange ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
), given_up AS (
    SELECT t.group_key, t.group_id, t.cluster, t.client_id, t.client_address, t.software, t.member_id, t.response_generation AS generation,
        t.at_us, t.seen_at, t.connection_id, t.exchange, t.asked_us, greatest(t.at_us, min(o.joined_us)) AS first_us,
        (SELECT count(DISTINCT m.member_id) FROM told AS m WHERE m.group_key = t.group_key AND m.joined_us <= t.asked_us) AS members
    FROM told AS t
    JOIN told AS o ON o.group_key = t.group_key AND o.member_id <> t.member_id AND o.at_us BETWEEN t.asked_us AND t.asked_us + 15000000
        AND len(list_filter(o.assignment, lambda p: list_contains(t.had, p) AND NOT list_contains(t.assignment, p))) > 0
    WHERE t.assignment IS NOT NULL AND t.had IS NOT NULL AND NOT list_has_all(t.assignment, t.had) AND list_has_all(t.assignment, t.has)
    GROUP BY t.group_key, t.group_id, t.cluster, t.client_id, t.client_address, t.software, t.member_id, t.response_generation,
        t.at_us, t.seen_at, t.connection_id, t.exchange, t.asked_us
), assigning AS ( -- the leader of each generation, and when it assigned, if it did
    SELECT j.group_key, j.group_id, j.cluster, j.client_id, j.client_address, j.software, j.member_id, j.response_generation AS generation,
        j.at_us, j.seen_at, j.connection_id, j.exchange, len(j.members) AS members, min(epoch_us(s.request_at)) AS assigned_us
    FROM client_group_events AS j
    LEFT JOIN client_group_events AS s ON s.group_key = j.group_key AND s.event = 'sync' AND s.member_id = j.member_id
        AND s.generation = j.response_generation
    WHERE j.event = 'join' AND j.group_type = 'classic' AND j.is_leader AND j.error_code = 0 AND len(j.members) > 1
    GROUP BY j.group_key, j.group_id, j.cluster, j.client_id, j.client_address, j.software, j.member_id, j.response_generation,
        j.at_us, j.seen_at, j.connection_id, j.exchange, len(j.members)
), assigned AS (
    SELECT a.*, a.at_us AS first_us, coalesce(a.assigned_us, max(epoch_us(f.seen_at))) AS asked_us
    FROM assigning AS a
    JOIN client_group_events AS f ON f.group_key = a.group_key AND f.event = 'sync' AND f.member_id <> a.member_id AND f.generation = a.generation
        AND NOT f.is_leader
    GROUP BY a.group_key, a.group_id, a.cluster, a.client_id, a.client_address, a.software, a.member_id, a.generation,
        a.at_us, a.seen_at, a.connection_id, a.exchange, a.members, a.assigned_us
), joins AS (
    SELECT group_key, response_generation AS generation, group_id, cluster, client_id, client_address, software, member_id,
        epoch_us(request_at) AS asked_us, epoch_us(seen_at) AS known_us, request_at AS seen_at, at_us, seen_at AS last_at, connection_id, exchange,
        protocol
    FROM client_group_events
    WHERE event = 'join' AND group_type = 'classic' AND error_code = 0 AND response_generation IS NOT NULL AND request_at IS NOT NULL
), ranked AS (
    SELECT *,
        row_number() OVER (PARTITION BY group_key, generation ORDER BY asked_us DESC, connection_id, exchange) AS latest,
        min(asked_us) OVER (PARTITION BY group_key, generation) AS first_us,
        max(known_us) OVER (PARTITION BY group_key, generation) AS formed_us,
        count(DISTINCT member_id) OVER (PARTITION BY group_key, generation) AS members
    FROM joins
)
SELECT r.*, make_timestamptz(r.first_us) AS first_at, (r.asked_us - r.first_us) // 1000000 AS seconds, 'join again' AS waited_for
FROM ranked AS r
WHERE r.latest = 1 AND r.members > 1
    AND r.formed_us - r.asked_us < 1000000 -- else it waited for yet another one
    AND coalesce(r.protocol, '') NOT LIKE 'cooperative%'
    AND EXISTS ( -- it was a member before
        SELECT 1 FROM joins AS b WHERE b.group_key = r.group_key AND b.member_id = r.member_id AND b.generation < r.generation)
UNION ALL BY NAME
SELECT *, make_timestamptz(asked_us) AS last_at, make_timestamptz(first_us) AS first_at, (asked_us - first_us) // 1000000 AS seconds
FROM (SELECT *, 'give up partitions' AS waited_for FROM given_up
    UNION ALL BY NAME SELECT * EXCLUDE (assigned_us), 'assign partitions' AS waited_for FROM assigned) AS others
