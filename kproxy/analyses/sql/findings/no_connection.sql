/*
id: no_connection
title: Addresses of brokers at which clients get no connection
severity: warning
meaning: >
  A client that talks to one broker tries to connect to an address that the cluster advertises, or where others are served, and
  gets no connection: nothing answers its SYNs (no such host, a route or a firewall), or the host refuses them (nobody listens
  there), or the connection is taken and ended before a byte. It was never served there in this capture, or is not any more:
  nothing answers its SYNs, while others are served. If this is the address in advertised.listeners, the client reaches its
  bootstrap server and then nothing.
basis:
  rests_on: TCP packets of attempts to connect, the brokers in the latest Metadata answers, and the connections of others
  certainty: measured
  wrong_if: the client is served there over a path that was not captured, or a broker whose address is a name is at another one
columns:
  severity: "notice: the client does its work at other brokers, and the address is known by its port only; else warning"
  address: "host:port of the attempts"
  how: "no answer; refused: by RST; dropped: taken, and ended before a byte"
  node_id: id of the broker that is advertised with this address; none
  advertised: "this address as the cluster advertises it, if it does: a name is matched by its port; none"
  broker: the broker whose Metadata answer says so; none
  advertised_at: the latest such answer (UTC); none
  clients: client ids that talk to brokers from that host
  attempts: connections refused or dropped, and SYNs without an answer that TCP sent again
  reached_by_others: other client addresses that were served there meanwhile
  seconds: ""
  change: what to change
action: Change what the row says. From the host of the client, try the address (nc -vz HOST PORT).
reference: https://kafka.apache.org/documentation/#brokerconfigs_advertised.listeners
parameters:
  min_attempts: {default: 3, least: 3, meaning: "Fewer attempts of a client address at an address are not listed; a SYN that TCP sent again counts."}
  min_seconds: {default: 5, least: 5, meaning: "Attempts over less than this are not listed: a broker restarts, a client tries another address."}
verdict: "{count client_address:client host gets/client hosts get} no connection to {count address:address/addresses} of brokers. {most attempts}: {clients} at {client_address} to {address}, {how}, {attempts:attempt/attempts} in {seconds:,} s since {first_at}[; advertised by {broker} for broker {node_id}]. Change {change}."
order: 12
only_if: FROM connections WHERE not_kafka IN ('no answer', 'refused', 'dropped')
frame:
  group_by: [client_id, client_address, address]
  values:
    how: mode(how)
    node_id: max(node_id)
    advertised: coalesce(max(advertised), 'none')
    broker: coalesce(max(broker), 'none')
    advertised_at: make_timestamptz(max(advertised_us))
    clients: max(clients)
    attempts: CAST(sum(tries) AS BIGINT)
    reached_by_others: max(others)
    severity: max(harm)
    seconds: (max(until_us) - min(at_us)) // 1000000
    first_at: make_timestamptz(min(at_us))
    last_at: make_timestamptz(max(until_us))
    example: min(struct_pack(at_us := at_us, connection_id := connection_id, exchange := CAST(NULL AS BIGINT)))
  derived:
    change: >-
      CASE how
        WHEN 'no answer' THEN CASE WHEN reached_by_others > 0 OR advertised = 'none' THEN 'the firewall or security group between them'
          ELSE 'advertised.listeners of that broker, or the route or firewall to it' END
        WHEN 'refused' THEN CASE WHEN reached_by_others > 0 THEN 'the firewall between them, or what the name resolves to on that host'
          ELSE 'the listener of that broker, or its advertised.listeners' END
        ELSE 'max.connections.per.ip, or what stands before the broker' END
  having: attempts >= $min_attempts AND seconds >= $min_seconds
  order_by: attempts DESC
*/
SELECT * FROM failed_attempts
