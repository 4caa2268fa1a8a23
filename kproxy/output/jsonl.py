"""The decoded log: one JSON object a line. This docstring is the contract; a test compares it with the output.

An exchange, ``"event": "exchange"``, has all of these fields, in this order:

    event           "exchange"
    connection      int: number of the connection in the capture, from 1
    client          str: "address:port" (IPv6 as "[::1]:9092")
    broker          str: likewise
    apiKey          int, or null where the request was not seen
    apiName         str: Kafka's name of the API; null if it is not known
    apiVersion      int or null
    correlationId   int or null
    clientId        str or null
    requestAt       str: when the request's first byte came, RFC 3339 in UTC with 6 or 9 digits; null without a request
    responseAt      str: when the response's last byte came; null without a response
    latencyMs       float: from requestAt to responseAt, in milliseconds; null where either is missing, or a response's end
                    was never sent
    requestInProxyMs  float: from the request's first byte received by kproxy to its last byte sent to the broker, in
                    milliseconds; this and the next two are null in a decode of a capture, where a filter answered, and where
                    it is not known
    brokerMs        float: from there to the response's first byte received from the broker
    responseInProxyMs  float: from there to the response's last byte sent to the client; not known where the client had not
                    taken all of it when the exchange was analyzed (kproxy_phase_seconds at /metrics has those as well)
    requestSize     int: bytes on the wire with the size field, whether all of them are here or not; null without a request
    responseSize    int: likewise
    requestHeader   object: Kafka's JSON of the header, or null
    request         object: Kafka's JSON of the body, or null; what is secret is the string "(withheld)"; {} for an ApiVersions
                    request at a version the broker lacks, which then reads none of it: what it says is in embedded ("unread")
    responseHeader  object or null
    response        object or null, as request
    embedded        list: what is inside bytes and records fields: objects of path, in, kind, json (error where it is broken);
                    empty where a body is beyond 16 MB of JSON
    errors          list of objects: path, code, name of every error code in the response that is not 0; after 1,000 of
                    them only codes not listed yet; in a response beyond 16 MB each code once, with path ""
    undecoded       str: why something in the exchange could not be read; null where all was
    unanswered      str: why there is no response although one was due, in words; null otherwise
    expectsResponse bool: false for Produce with acks=0
    topicNames      object: topic id -> topic name, of the ids in the exchange whose names the capture has shown
    layout          str: the Kafka release whose layout was used, for the few versions changed in place; else null
    assumedVersion  int: the newest known version, whose layout fitted a version newer than the facts; else null
    bodies          str: why a body is cut, in words (a snaplen, a gap, an analyzer that was behind); request and response then
                    have the fields before the cut, while sizes and times are those of the wire; else null
    trailing        object: number of bytes after the message, for each side ("request", "response") that has some; else null.
                    Some software sends such bytes, and its peers ignore them
    missing         object: for each side whose body is cut, the path of the first incomplete field
                    ("topicData[0].partitionData[1].records"; "" if no field is known, null if all fields are complete); arrays
                    on that path have fewer elements than were sent, and the last one may lack fields. Else null
    edited          list of str: what filters and breakpoints of a proxy did: "request changed by mask", "answered by deny",
                    "response dropped by faults". Request and response are as the client and the broker sent them

Anything else has ``event``, ``connection``, ``client``, ``broker``, ``at`` (as requestAt) and:

    event           "saslToken": an authentication token outside of any request: direction, size, mechanism, token
                    "gap": bytes are missing: direction, size (null if not known), skipped, cut
                    "badFrame": a frame no peer would accept: direction, reason
                    "note": something else that a peer did, as a second answer to one request: direction, what
                    "notKafka": the connection does not speak Kafka in the clear: direction, kind, what,
                    tls, tcp
                    "tls": the connection was TLS and could be decrypted; written when it ends: tls
    direction       str: "request" (client to broker) or "response"
    size            int: bytes, or null
    mechanism       str: the SASL mechanism that the client asked for, or null
    token           object: the parts of the token that are no secret, as in embedded; null where it is opaque
    skipped         int: bytes skipped until a frame was found again, or of an incomplete size field
    cut             str: why bytes are missing, in words, unless the capture simply lacks them
    reason          str: in words
    kind            str: tls, http, proxy, ssh, postgresql, zookeeper, text, one-sided, unknown; without a byte: no answer,
                    refused, dropped
    what            str: in words; of notKafka which side it is and what to change
    tls             object: what is known of the connection's TLS (fields: kproxy.output.tls); null in the clear
    tcp             object: what TCP itself said, in captures: synAt and lastSynAt of the client's SYNs, syns (how many),
                    synAckAt, closedBy (client or broker: who sent FIN or RST first), closedAt; null: not captured

Kafka's JSON is what its JsonConverter classes write; int64 values are plain numbers, also beyond 2^53.
"""

from typing import Any

from kproxy.output.bodies import Bodies
from kproxy.output.exchange_line import exchange_line
from kproxy.output.times import render_instant
from kproxy.output.tls import tls_json
from kproxy.protocol.embedded.payload import to_json
from kproxy.session import BadFrame, Cut, Event, Exchange, Gap, Note, NotKafka, SaslToken, TcpFacts

START = b'{"event":"'  # of every line that kproxy writes; a program that rewrote it may have inserted spaces


def event_line(event: Event, bodies: Bodies | None = None) -> bytes:
    """Return the line of an event in the decoded log, in UTF-8, newline included."""
    if isinstance(event, Exchange):
        return exchange_line(event, bodies)
    name, fields = _other(event)
    connection = event.connection
    row: dict[str, Any] = {
        "event": name,
        "connection": connection.number,
        "client": connection.client,
        "broker": connection.broker,
        "at": render_instant(event.at),
    }
    return to_json(row | fields) + b"\n"


def _other(event: Event) -> tuple[str, dict[str, Any]]:
    """Return the name of an event that is no exchange, and the fields that only such events have."""
    facts = event.connection.tls
    tls = None if facts is None else tls_json(facts)
    match event:
        case SaslToken():
            named = {"mechanism": event.connection.sasl_mechanism, "token": event.parts}
            return "saslToken", {"direction": event.direction.text, "size": event.size, **named}
        case Gap():
            cut = {} if event.cut is Cut.MISSING else {"cut": event.cut.text}
            return "gap", {"direction": event.direction.text, "size": event.size, "skipped": event.skipped, **cut}
        case BadFrame():
            return "badFrame", {"direction": event.direction.text, "reason": event.reason}
        case Note():
            return "note", {"direction": event.direction.text, "what": event.what}
        case NotKafka():
            return "notKafka", {
                "direction": event.direction.text,
                "kind": event.kind,
                "what": event.what,
                "tls": tls,
                **_tcp(event.connection.tcp),
            }
    return "tls", {"tls": tls}


def _tcp(facts: TcpFacts | None) -> dict[str, Any]:
    """Return the field for what TCP said; none for a live connection."""
    if facts is None:
        return {}
    moments = {
        "synAt": facts.syn_at,
        "lastSynAt": facts.last_syn_at,
        "synAckAt": facts.syn_ack_at,
        "closedAt": facts.closed_at,
    }
    times = {name: None if at is None else render_instant(at) for name, at in moments.items()}
    return {"tcp": {**times, "syns": facts.syns, "closedBy": facts.closed_by}}
