/*
meaning: >-
  For clients whose library and version client_versions knows: the version of each API that the library uses if the broker offers more
  (highest), the lowest version that it can use (floor; Java only), and whether it negotiates versions with ApiVersions.
stored: true
*/
SELECT w.client, v.api_key,
  max(v.highest) AS highest,
  min(CASE WHEN v.library = 'apache-kafka-java' THEN a.min_version END) AS floor,
  min(v.negotiates) AS negotiates
FROM (
  SELECT client, min(library) AS library, min(library_order) AS library_order FROM clients WHERE library_order IS NOT NULL GROUP BY client
) w
JOIN client_versions v ON v.library = w.library AND w.library_order BETWEEN v.first_order AND v.last_order
LEFT JOIN api_versions a ON a.release = v.first_version AND a.api_key = v.api_key
GROUP BY w.client, v.api_key
