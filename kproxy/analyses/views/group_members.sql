/*
meaning: >-
  For each generation that a group formed: its members (is_there), and those of the generation before it (was_there). stays: the
  member heard of both.
stored: true
*/
SELECT *
FROM (
  SELECT g.group_key, g.generation, g.group_type, s.member_id, s.spell, s.identity, s.first_generation = g.generation AS is_first,
    -- a member of KIP-848's protocol hears of an epoch late, or keeps its place: see group_spells
    s.first_generation <= g.previous_generation AND s.first_micros < g.formed_micros AND (s.last_generation >= g.previous_generation
      OR (g.group_type <> 'classic' AND s.there_until_micros >= g.previous_micros)) AS was_there,
    s.first_generation <= g.generation AND (s.last_generation >= g.generation
      OR (g.group_type <> 'classic' AND s.there_until_micros >= g.formed_micros)) AS is_there,
    s.first_generation <= g.previous_generation AND s.last_generation >= g.generation AS stays
  FROM group_generations g
  JOIN group_spells s ON s.group_key = g.group_key
  WHERE g.formed
)
WHERE was_there OR is_there
