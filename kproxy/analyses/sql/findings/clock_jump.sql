/*
id: clock_jump
title: Captures whose clock went back
severity: notice
meaning: >
  On a connection, requests have times before those of requests that came earlier on it: the clock of the capturing host was set
  back, or a file was put together from parts whose clocks differ. Durations and the order of events across it are wrong, and so may
  be findings that rest on them; lost_records and future_timestamps are left out.
basis:
  rests_on: the order of requests on each connection, next to their times
  certainty: measured
  wrong_if: the file was put together from captures of several hosts, in an order that is not that of its packets
columns:
  back_by_ms: milliseconds by which it went back
  went_at: the last time before it went back (UTC)
  connections: connections that show it
  cluster: ""
action: Keep the clock of the capturing host in step (NTP), and read the parts before and after it by themselves.
reference: https://kafka.apache.org/documentation/#monitoring
parameters:
  min_connections: {default: 1, meaning: "Clocks that went back on fewer connections are not listed."}
verdict: "The clock of the capture went back by {back_by_ms:ms} after {went_at}, as {connections:connection shows/connections show}. Durations and the order of events across it are wrong: read the parts before and after it by themselves."
order: 5
frame:
  group_by: [cluster]
  values:
    client_id: min_by(client_id, at_us)
    client_address: min_by(client_address, at_us)
    back_by_ms: max(before_us - at_us) // 1000
    went_at: make_timestamptz(max(before_us))
    connections: count(DISTINCT connection_id)
  having: connections >= $min_connections
  order_by: back_by_ms DESC
*/
SELECT *
FROM clock_jumps
