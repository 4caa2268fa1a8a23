/*
meaning: >-
  Members whose group no longer knew them although they had not left: the first heartbeat, SyncGroup or commit of each that was answered
  with UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH (error_name), when the member was heard of before (before_us) and had joined last (joined_us),
  and after how many of its joins it was answered so (times), as a member of KIP-848's protocol keeps its id.
stored: true
*/
WITH joined AS (
    SELECT *, max(CASE WHEN event = 'join' AND error_code = 0 THEN at_us END) OVER (
        PARTITION BY group_key, member_id ORDER BY at_us, connection_id, exchange ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS joined_us
    FROM client_group_events
), refused AS (
    SELECT *,
        row_number() OVER (PARTITION BY group_key, member_id ORDER BY at_us, connection_id, exchange) AS nth
    FROM joined
    WHERE (event IN ('heartbeat', 'sync') OR (event = 'commit' AND member_id <> '')) AND error_code IN (25, 110)
), counted AS (
    SELECT group_key, member_id, greatest(count(DISTINCT joined_us), 1) AS times FROM refused GROUP BY group_key, member_id
), left_group AS (
    SELECT group_key, member_id, min(at_us) AS left_us
    FROM client_group_events
    WHERE event = 'leave'
    GROUP BY group_key, member_id
), beats AS (
    SELECT connection_id, cluster, group_id, member_id, exchange, at_us
    FROM client_exchanges
    WHERE api_key IN (11, 12, 14, 68, 76, 88)
), sessions AS (
    SELECT group_key, member_id, max(session_timeout_ms) AS session_timeout_ms
    FROM client_group_events
    WHERE event = 'join'
    GROUP BY group_key, member_id
), matched AS (
    SELECT r.client_id, r.client_address, r.software, r.cluster, r.group_key, r.group_id, r.member_id, r.error_name,
        r.seen_at, r.at_us, r.joined_us, r.connection_id, r.exchange,
        max(b.at_us) AS before_us
    FROM refused AS r
    LEFT JOIN left_group AS l ON l.group_key = r.group_key AND l.member_id = r.member_id AND l.left_us <= r.at_us
    LEFT JOIN beats AS b ON b.connection_id = r.connection_id
        AND b.group_id = r.group_id AND b.member_id = r.member_id AND b.exchange < r.exchange
    WHERE r.nth = 1 AND l.left_us IS NULL
    AND r.at_us - epoch_us(coalesce(r.request_at, r.seen_at)) < 2000000 -- else it was the broker that stood still
    AND (r.event <> 'commit' OR EXISTS ( -- anybody may send a commit in a member's name
        SELECT 1 FROM beats AS w WHERE w.cluster = r.cluster AND w.group_id = r.group_id AND w.member_id = r.member_id AND w.at_us < r.at_us)
    ) AND NOT EXISTS ( -- its broker came back as another cluster
        FROM client_group_events AS b WHERE b.member_id = r.member_id AND b.broker = r.broker AND b.cluster <> r.cluster AND b.at_us < r.at_us
    ) AND NOT EXISTS (
        SELECT 1
        FROM client_group_events AS mine
        JOIN client_group_events AS other ON other.group_key = mine.group_key AND other.group_instance_id = mine.group_instance_id
        WHERE mine.event = 'join' AND mine.group_key = r.group_key AND mine.member_id = r.member_id AND mine.group_instance_id <> ''
            AND other.event = 'join' AND other.member_id <> r.member_id AND coalesce(other.error_code, 0) = 0
            AND other.at_us BETWEEN mine.at_us AND r.at_us)
    GROUP BY
        r.client_id, r.client_address, r.software, r.cluster, r.group_key, r.group_id, r.member_id, r.error_name, r.seen_at, r.at_us,
        r.joined_us, r.connection_id, r.exchange
)
SELECT m.*, s.session_timeout_ms, c.times
FROM matched AS m
JOIN counted AS c ON c.group_key = m.group_key AND c.member_id = m.member_id
LEFT JOIN sessions AS s ON s.group_key = m.group_key AND s.member_id = m.member_id
