/*
meaning: >-
  The connections that the client closed sooner after its last request than an answer needs for the way, where that takes 100 ms at least.
*/
SELECT connection_id, client_id, client_address
FROM ways
WHERE closed_by = 'client' AND way_us >= 100000 AND closed_us - last_us BETWEEN 1 AND way_us
