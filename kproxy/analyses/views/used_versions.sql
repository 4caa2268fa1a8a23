/*
meaning: >-
  Each version of an API that a client asked a broker for: whether the client negotiates versions (yes, no, unknown), the highest version
  that the broker offered each time (offered), that the client's library can use (able), and that this client asks for in this way
  whatever a broker offers (bound; null: not known). floor: the lowest version that the library can use (Java only).
stored: true
*/
WITH asked AS (
  SELECT c.client, c.client_id, c.client_address, c.broker_address, c.broker_port, e.api_key, e.api_version,
    max(e.api_name) AS api_name,
    count(*) AS requests,
    min(epoch_us(e.request_at)) AS first_micros
  FROM exchanges e
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE e.request_at IS NOT NULL AND e.api_version IS NOT NULL
    -- clear text to a TLS listener: no broker read it
    AND e.connection_id NOT IN (SELECT connection_id FROM connections WHERE not_kafka = 'tls')
  GROUP BY c.client, c.client_id, c.client_address, c.broker_address, c.broker_port, e.api_key, e.api_version
),
-- Libraries that negotiate do so on their first connection at least: that nobody did is known if no connection began before the capture.
habits AS (
  SELECT c.client, bool_or(o.negotiates) AS negotiates, bool_and(o.begins) AS begins
  FROM opened_connections o
  JOIN clients c ON c.connection_id = o.connection_id
  GROUP BY c.client
), libraries AS (
  SELECT client, min(library) AS library, min(library_order) AS library_order
  FROM clients
  WHERE library_order IS NOT NULL
  GROUP BY client
), newest AS (
  SELECT max(last_order) AS java_order FROM client_versions WHERE library = 'apache-kafka-java'
), abilities AS (
  SELECT l.client, v.api_key,
    max(v.highest) AS able,
    min(CASE WHEN v.library = 'apache-kafka-java' THEN a.min_version END) AS floor,
    min(v.negotiates) AS negotiates
  FROM libraries l
  JOIN client_versions v ON v.library = l.library AND l.library_order BETWEEN v.first_order AND v.last_order
  LEFT JOIN api_versions a ON a.release = v.first_version AND a.api_key = v.api_key
  GROUP BY l.client, v.api_key
), known AS (
  SELECT a.*, o.always AS offered, b.floor,
    CASE WHEN l.library = 'apache-kafka-java' AND l.library_order > n.java_order THEN 32767 ELSE b.able END AS able,
    CASE
      -- what the client was seen to do wins over what its library, perhaps taken from a default client id, can do
      WHEN h.negotiates THEN 'yes'
      WHEN h.begins THEN 'no'
      WHEN b.negotiates THEN 'yes'
      WHEN b.negotiates = false THEN 'no'
      ELSE 'unknown'
    END AS negotiates
  FROM asked a
  CROSS JOIN newest n
  JOIN habits h ON h.client = a.client
  LEFT JOIN libraries l ON l.client = a.client
  LEFT JOIN abilities b ON b.client = a.client AND b.api_key = a.api_key
  LEFT JOIN broker_versions o
    ON o.broker_address = a.broker_address AND o.broker_port = a.broker_port AND o.api_key = a.api_key
)
SELECT k.*,
  CASE
    WHEN negotiates = 'no' THEN api_version
    WHEN negotiates = 'yes' AND api_version < offered AND (able IS NULL OR api_version < able) THEN api_version -- both can do more
    ELSE able
  END AS bound
FROM known k
