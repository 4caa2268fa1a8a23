/*
meaning: >-
  For each generation of classic groups, the member that joined last of those that were members before, how long the first one had waited
  (seconds), and from when to when (first_us, asked_us).
stored: true
*/
WITH joins AS (
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
SELECT r.*, make_timestamptz(r.first_us) AS first_at, (r.asked_us - r.first_us) // 1000000 AS seconds
FROM ranked AS r
WHERE r.latest = 1 AND r.members > 1
    AND r.formed_us - r.asked_us < 1000000 -- else it waited for yet another one
    AND coalesce(r.protocol, '') NOT LIKE 'cooperative%'
    AND EXISTS ( -- it was a member before
        SELECT 1 FROM joins AS b WHERE b.group_key = r.group_key AND b.member_id = r.member_id AND b.generation < r.generation)
