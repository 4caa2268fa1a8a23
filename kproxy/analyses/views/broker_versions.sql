/*
meaning: >-
  The versions of each API that brokers offer, as ApiVersions responses have them; one row for each address and API. always: the
  highest version that each of its responses has; it differs from highest where the broker was upgraded between captures.
stored: true
*/
WITH ranges AS (
  SELECT broker_address, broker_port,
    try_cast(split_part(text, ':', 1) AS SMALLINT) AS api_key,
    try_cast(regexp_extract(text, ':(-?[0-9]+)-(-?[0-9]+)$', 1) AS SMALLINT) AS lowest,
    try_cast(regexp_extract(text, ':(-?[0-9]+)-(-?[0-9]+)$', 2) AS SMALLINT) AS highest
  FROM (  -- a broker gives the same answer to all: each is read once
    SELECT DISTINCT c.broker_address, c.broker_port, e.offered_versions
    FROM exchanges e
    JOIN connections c ON c.connection_id = e.connection_id
    WHERE e.offered_versions IS NOT NULL
  ) d CROSS JOIN unnest(offered_versions) AS offered(text)
)
SELECT broker_address, broker_port, api_key, min(lowest) AS lowest, max(highest) AS highest, min(highest) AS always
FROM ranges
WHERE api_key IS NOT NULL AND highest IS NOT NULL
GROUP BY broker_address, broker_port, api_key
