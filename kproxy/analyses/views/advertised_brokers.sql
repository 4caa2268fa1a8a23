/*
meaning: The address that each cluster advertised last for a broker id.
*/
SELECT k.cluster, CAST(split_part(a.text, ' ', 1) AS INTEGER) AS broker_id, max_by(split_part(a.text, ' ', 2), e.response_at) AS address
FROM exchanges AS e
JOIN connection_clusters AS k ON k.connection_id = e.connection_id
CROSS JOIN unnest(e.advertised) AS a(text)
WHERE e.response_at IS NOT NULL
GROUP BY k.cluster, CAST(split_part(a.text, ' ', 1) AS INTEGER)
