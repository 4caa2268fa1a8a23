"""The decoded log: one JSON object a line. This docstring is the contract; a test compares it with the output.

An exchange, ``"event": "exchange"``, has all of these fields, in this order:

    event           "exchange"
    connection      int: number of the connection in the capture, from 1
    client          str: "address:port" (IPv6 as "[::1]:9092")
    broker          str: likewise
    apiKey          int, or null where the request was not seen
    apiName         str: Kafka's name of the API; null where it is not known
    apiVersion      int or null
    correlationId   int or null
    clientId        str or null
    requestAt       str: when the request's first byte came, RFC 3339 in UTC with 6 or 9 digits; null without a request
    responseAt      str: when the response's last byte came; null without a response
    latencyMs       float: from requestAt to responseAt, in milliseconds; null where either is missing, or a response's end
                    was never sent
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
    bodies          str: why a body is not here to its end, in words (a snaplen, a gap, an analyzer that was behind); then
                    request and response have the fields that are whole, while sizes and times are those of the wire; else null
    trailing        object: bytes after the message, by side ("request", "response"), of the sides that have some; null where
                    neither has. Some software sends such bytes, and what reads them ignores them
    missing         object: by side, for each body that is cut, the path of the first field that is not whole
                    ("topicData[0].partitionData[1].records"; "" where none is known, null where all fields are here); the arrays
                    on that path have fewer elements than were sent, and their last one may lack fields. Else null

Anything else has ``event``, ``connection``, ``client``, ``broker``, ``at`` (as requestAt) and:

    event           "saslToken": an authentication token outside of any request: direction, size, mechanism, token
                    "gap": bytes are missing: direction, size (null where nobody knows), skipped
                    "badFrame": a frame no peer would accept: direction, reason
                    "notKafka": the connection does not speak Kafka in the clear: direction, kind, what, tls
                    "tls": the connection was TLS and could be read; said when it is over: tls
    direction       str: "request" (client to broker) or "response"
    size            int: bytes, or null
    mechanism       str: the SASL mechanism that the client asked for, or null
    token           object: the parts of the token that are no secret, as in embedded; null where it is opaque
    skipped         int: bytes passed over until a frame could be found again
    reason          str: in words
    kind            str: tls, http, proxy, ssh, postgresql, zookeeper, text, one-sided, unknown
    what            str: in words, which side it is and what to change
    tls             object: what is known of the connection's TLS (fields: kproxy.output.tls); null in the clear

Kafka's JSON is what its JsonConverter classes write; int64 values are plain numbers, also beyond 2^53.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from kproxy.output.bodies import Bodies, find_errors, find_topic_names, read_bodies
from kproxy.output.completeness import completeness_json
from kproxy.output.escaping import well_formed
from kproxy.output.times import render_instant
from kproxy.output.tls import tls_json
from kproxy.protocol.facts import facts
from kproxy.session import BadFrame, Event, Exchange, Frame, Gap, NotKafka, SaslToken, Tls

encode = msgspec.json.Encoder().encode


def exchange_line(exchange: Exchange, bodies: Bodies | None = None) -> bytes:
    """One exchange as a line of the decoded log, with its newline; UTF-8."""
    if bodies is None:
        bodies = read_bodies(exchange)
    request, response = exchange.request, exchange.response
    undecoded = bodies.undecoded
    connection = exchange.connection
    latency = exchange.latency_ms
    return b"".join((
        _head(connection.number, connection.client, connection.broker),
        _api(exchange.api_key, exchange.api_version),
        b',"correlationId":', _number(exchange.correlation_id),
        b',"clientId":', _text(exchange.client_id),
        b',"requestAt":', b"null" if request is None else _instant(request.started_at),
        b',"responseAt":', b"null" if response is None else _instant(response.ended_at),
        b',"latencyMs":', b"null" if latency is None else b"%.6f" % latency,
        b',"requestSize":', b"null" if request is None else b"%d" % request.wire_size,
        b',"responseSize":', b"null" if response is None else b"%d" % response.wire_size,
        b',"requestHeader":', _header(request),
        b',"request":', bodies.request or b"null",
        b',"responseHeader":', _header(response),
        b',"response":', bodies.response or b"null",
        b',"embedded":[', b",".join([one.to_json() for one in bodies.embedded]),
        b'],"errors":', _errors(bodies.response),
        b',"undecoded":', _text(undecoded),
        b',"unanswered":', _text(exchange.unanswered),
        b',"expectsResponse":', b"true" if exchange.expects_response else b"false",
        b',"topicNames":', encode(find_topic_names(exchange, bodies)),
        _layout(request, response),
        completeness_json(exchange, bodies),
        b"}\n",
    ))  # fmt: skip


def event_line(event: Event, bodies: Bodies | None = None) -> bytes:
    """Any event as a line of the decoded log, with its newline; UTF-8."""
    if isinstance(event, Exchange):
        return exchange_line(event, bodies)
    name, fields = OTHER_EVENTS[type(event)]
    connection = event.connection
    row: dict[str, Any] = {
        "event": name,
        "connection": connection.number,
        "client": connection.client,
        "broker": connection.broker,
        "at": render_instant(event.at),
    }
    return encode(row | fields(event)) + b"\n"


def _sasl_token(event: Any) -> dict[str, Any]:
    mechanism = event.connection.sasl_mechanism
    return {"direction": event.direction.text, "size": event.size, "mechanism": mechanism, "token": event.parts}


def _gap(event: Any) -> dict[str, Any]:
    return {"direction": event.direction.text, "size": event.size, "skipped": event.skipped}


def _bad_frame(event: Any) -> dict[str, Any]:
    return {"direction": event.direction.text, "reason": well_formed(event.reason)}


def _not_kafka(event: Any) -> dict[str, Any]:
    return {
        "direction": event.direction.text,
        "kind": event.kind,
        "what": well_formed(event.what),
        "tls": _tls_object(event),
    }


def _tls(event: Any) -> dict[str, Any]:
    return {"tls": _tls_object(event)}


def _tls_object(event: Event) -> dict[str, Any] | None:
    facts = event.connection.tls
    return None if facts is None else tls_json(facts)


OTHER_EVENTS: dict[type[Event], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    SaslToken: ("saslToken", _sasl_token),
    Gap: ("gap", _gap),
    BadFrame: ("badFrame", _bad_frame),
    NotKafka: ("notKafka", _not_kafka),
    Tls: ("tls", _tls),
}


@lru_cache(maxsize=4096)
def _head(number: int, client: str, broker: str) -> bytes:
    return b'{"event":"exchange","connection":%d,"client":%b,"broker":%b' % (number, encode(client), encode(broker))


@lru_cache(maxsize=4096)
def _api(api_key: int | None, api_version: int | None) -> bytes:
    api = facts().apis.get(api_key) if api_key is not None else None
    return b',"apiKey":%b,"apiName":%b,"apiVersion":%b' % (
        _number(api_key),
        encode(api.name if api is not None else None),
        _number(api_version),
    )


def _text(text: str | None) -> bytes:
    return encode(text if text is None else well_formed(text))


def _number(number: int | None) -> bytes:
    return b"null" if number is None else b"%d" % number


def _instant(at: int) -> bytes:
    return b'"%b"' % render_instant(at).encode()


def _header(frame: Frame | None) -> bytes:
    return b"null" if frame is None or frame.header is None else frame.header.to_json()


def _errors(response: bytes | None) -> bytes:
    found = find_errors(response)
    return encode(found) if found else b"[]"


def _layout(request: Frame | None, response: Frame | None) -> bytes:
    layout: str | None = None
    assumed: int | None = None
    for frame in (response, request):
        if frame is not None:
            layout = frame.layout or layout
            assumed = assumed if frame.assumed_version is None else frame.assumed_version
    if layout is None and assumed is None:
        return b',"layout":null,"assumedVersion":null'
    return b',"layout":%b,"assumedVersion":%b' % (encode(layout), _number(assumed))
