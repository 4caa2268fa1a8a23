/*
meaning: Static members that come back before their session times out, which keeps the generation; place 1 is the first time.
*/
SELECT e.group_key, e.group_type, e.response_generation AS generation, e.member_id, e.client_id, e.connection_id,
  e.group_instance_id, e.protocol, epoch_us(e.request_at) AS micros, epoch_us(e.seen_at) AS known,
  row_number() OVER (PARTITION BY e.group_key, e.member_id ORDER BY e.request_at, e.exchange) AS place,
  EXISTS (
    SELECT 1 FROM keyed_group_events f WHERE f.group_key = e.group_key AND f.error_code = 82 AND f.member_id <> e.member_id
      AND f.group_instance_id = e.group_instance_id AND f.seen_at >= e.request_at) AS fences
FROM keyed_group_events e
JOIN group_generations g ON g.formed AND g.group_key = e.group_key AND g.generation = e.response_generation
WHERE e.event = 'join' AND e.error_code = 0 AND e.group_instance_id IS NOT NULL
  AND epoch_us(e.request_at) > g.formed_micros
  AND EXISTS (
    SELECT 1 FROM group_spells s WHERE s.group_key = e.group_key AND s.identity = e.group_instance_id
      AND s.first_micros < epoch_us(e.request_at) AND (s.member_id <> e.member_id OR e.group_type <> 'classic'))
