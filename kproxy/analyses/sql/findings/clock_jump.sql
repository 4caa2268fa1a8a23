/*
id: clock_jump
title: Captures whose clock was set
severity: notice
meaning: >
  Back: on a connection, requests have times before those of requests that came earlier on it. Forward: for seconds, nothing of a
  cluster has a time, neither requests that clients send steadily nor answers that were due, and then all goes on as before. The clock
  of the capturing host was set, or a file was put together from parts whose clocks differ. Durations and the order of events across it
  are wrong, and so may be findings that rest on them; broker_away, lost_records and future_timestamps leave it out.
basis:
  rests_on: the order of requests on each connection, next to their times
  certainty: inferred
  wrong_if: >-
    the file was put together from captures of several hosts, in an order that is not that of its packets (back); or one machine with
    all clients and brokers was suspended (forward)
columns:
  direction: back or forward
  bound: at least (back) or at most (forward), as time passed between the two requests as well
  set_by_ms: milliseconds by which it was set, at least or at most
  went_at: the last time before it was set (UTC)
  connections: connections that show it
action: Keep the clock of the capturing host in step (NTP), and read the parts before and after it by themselves.
reference: https://kafka.apache.org/documentation/#monitoring
parameters:
  min_connections: {default: 1, meaning: "Clocks that were set as fewer connections show are not listed."}
verdict: "The clock of the capture went {direction} by {bound} {set_by_ms:ms} after {went_at}, as {connections:connection shows/connections show}. Durations and the order of events across it are wrong: read the parts before and after it by themselves."
order: 5
frame:
  group_by: [cluster, direction]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    bound: CASE direction WHEN 'back' THEN 'at least' ELSE 'at most' END
    set_by_ms: coalesce(max(before_us - at_us) FILTER (direction = 'back'), min(at_us - before_us)) // 1000
    went_at: make_timestamptz(max(before_us))
  having: connections >= $min_connections
  order_by: set_by_ms DESC
*/
SELECT *
FROM clock_jumps
