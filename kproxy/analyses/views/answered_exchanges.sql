/*
meaning: >-
  How long each answered request took (micros), and whether the broker may have held it by design (kind waiting: JoinGroup, SyncGroup,
  a Fetch that waited for records, and what was sent behind such a request) or not (work). queued_micros is how long it stood behind a
  held request; own_micros is its time without the wait for any earlier request of the connection; broker_micros is the time until the
  broker answered, in the log of a running kproxy without the time in kproxy.
stored: true
*/
WITH ordered AS (
  SELECT *,
    -- A broker answers the requests of a connection one after the other: this one waited for a held request before it.
    max(CASE WHEN api_key IN (1, 11, 14, 78) THEN epoch_us(response_at) END) OVER (
      PARTITION BY connection_id ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS held_micros,
    max(epoch_us(response_at)) OVER (
      PARTITION BY connection_id ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_micros
  FROM exchanges
)
SELECT e.connection_id, e.exchange, e.api_key, e.api_name,
  epoch_us(e.response_at) - epoch_us(e.request_at) AS micros,
  least(CAST(round(e.broker_ms * 1000, 0) AS BIGINT), epoch_us(e.response_at) - epoch_us(e.request_at)) AS broker_micros,
  CASE
    WHEN e.api_key IN (11, 14) OR e.held_micros > epoch_us(e.request_at) THEN 'waiting'
    -- A broker that has min_bytes answers a Fetch at once; else it waits for records. Whether records of
    -- an answer were already stored is not in the traffic. A large answer suggests that most were. KRaft holds a Fetch of the
    -- metadata log although its min_bytes is 0. Where the request was not decoded (a capture with a snap length) nothing is known.
    WHEN e.api_key IN (1, 78) AND coalesce(e.max_wait_ms, 1) > 0 AND (coalesce(e.min_bytes, 1) > 0 OR c.role = 'broker')
      AND (coalesce(e.record_bytes, 0) <= greatest(coalesce(e.min_bytes, 1), 65536)
        OR epoch_us(e.response_at) - epoch_us(e.request_at) >= CAST(e.max_wait_ms AS BIGINT) * 1000) THEN 'waiting'
    ELSE 'work'
  END AS kind,
  CASE WHEN e.api_key IN (1, 78) THEN coalesce(CAST(e.max_wait_ms AS BIGINT) * 1000, 0) ELSE 0 END AS max_wait_micros,
  greatest(coalesce(e.held_micros, 0) - epoch_us(e.request_at), 0) AS queued_micros,
  epoch_us(e.response_at) - greatest(epoch_us(e.request_at), coalesce(e.free_micros, 0)) AS own_micros,
  coalesce(e.throttle_time_ms, 0) AS throttle_ms,
  len(e.error_codes) > 0 AS is_failed,
  e.request_in_proxy_ms + e.response_in_proxy_ms AS in_proxy_ms
FROM ordered e
JOIN clients c ON c.connection_id = e.connection_id
WHERE e.latency_ms IS NOT NULL AND e.api_key IS NOT NULL
