/*
meaning: >-
  Members that left their group because their application did not poll in time: that say so (says_so), or that give no reason and
  come back (back_us), or stay away while their process goes on (stays_away). For static members, which do not leave, when they
  joined anew.
stored: true
*/
WITH joined AS (
    SELECT connection_id, group_id, seen_at, at_us, exchange, member_id, rebalance_timeout_ms
    FROM client_group_events
    WHERE event = 'join'
), left_group AS (
    SELECT *,
        CASE WHEN lower(reason) LIKE '%poll timeout%' OR lower(reason) LIKE '%max.poll.interval%' OR lower(reason) LIKE '%max poll%'
            THEN 1 ELSE 0 END AS says_so
    FROM client_group_events
    WHERE event = 'leave' AND coalesce(error_code, 0) = 0
), matched AS (
    SELECT
        l.client_id, l.client_address, l.software, l.cluster, l.group_id, l.member_id, l.group_instance_id, l.reason,
        l.says_so, l.seen_at, l.at_us, l.connection_id, l.exchange,
        max(CASE WHEN j.exchange < l.exchange THEN j.rebalance_timeout_ms END) AS rebalance_timeout_ms,
        min(CASE WHEN j.exchange > l.exchange THEN j.at_us END) AS back_us,
        min(CASE WHEN j.exchange > l.exchange THEN j.seen_at END) AS back_at
    FROM left_group AS l
    LEFT JOIN joined AS j ON j.connection_id = l.connection_id AND j.group_id = l.group_id
    GROUP BY
        l.client_id, l.client_address, l.software, l.cluster, l.group_id, l.member_id, l.group_instance_id, l.reason, l.says_so,
        l.seen_at, l.at_us, l.connection_id, l.exchange
), late AS (
    SELECT m.*,
        m.back_us IS NULL AND m.at_us - (
            SELECT max(f.at_us) FROM client_exchanges AS f
            WHERE f.api_key = 1 AND f.client_id IS NOT DISTINCT FROM m.client_id AND f.client_address = m.client_address
        ) >= CAST(m.rebalance_timeout_ms AS BIGINT) * 1000 - 1000000 -- the last Fetch waited for records, while the application polled
            AND c.last_seen_us - m.at_us >= 10000000 AND coalesce(c.closed_us, c.last_seen_us) - m.at_us >= 10000000 AS stays_away
    FROM matched AS m
    JOIN client_connections AS c ON c.connection_id = m.connection_id
    UNION ALL
    SELECT s.client_id, s.client_address, s.software, s.cluster, s.group_id, s.member_id, s.group_instance_id, CAST(NULL AS VARCHAR), 0,
        b.last_at, b.last_us, s.connection_id, b.exchange, s.rebalance_timeout_ms, s.back_us, s.back_at, false
    FROM (
        SELECT *, lead(member_id) OVER of_instance AS next_member, lead(at_us) OVER of_instance AS back_us, lead(seen_at) OVER of_instance AS back_at
        FROM client_group_events
        WHERE event = 'join' AND group_instance_id <> '' AND coalesce(error_code, 0) = 0
        WINDOW of_instance AS (PARTITION BY group_key, connection_id, group_instance_id ORDER BY at_us, exchange)
    ) AS s
    JOIN (
        SELECT connection_id, member_id, max(seen_at) AS last_at, max(at_us) AS last_us, max_by(exchange, at_us) AS exchange
        FROM client_exchanges
        WHERE api_key IN (12, 14)
        GROUP BY connection_id, member_id
        HAVING count(CASE WHEN len(error_codes) > 0 AND error_name <> 'REBALANCE_IN_PROGRESS' THEN 1 END) = 0
    ) AS b ON b.connection_id = s.connection_id AND b.member_id = s.member_id
    WHERE s.next_member <> s.member_id AND s.back_us - (
        SELECT max(f.at_us) FROM client_exchanges AS f
        WHERE f.api_key = 1 AND f.client_id IS NOT DISTINCT FROM s.client_id AND f.client_address = s.client_address AND f.at_us < s.back_us
    ) >= CAST(s.rebalance_timeout_ms AS BIGINT) * 1000
)
SELECT * FROM late WHERE says_so = 1 OR (coalesce(reason, '') = '' AND (stays_away OR back_us IS NOT NULL))
