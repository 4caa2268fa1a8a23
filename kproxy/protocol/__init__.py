"""The schemas of all Kafka messages, and how to decode, show and encode them.

No I/O beyond reading the data files of this package, no clock, no state between calls.

    message("FetchRequest")         -> Message: decode, to_json, beginning, walk, check, peek, encode, from_json
    request_message(ApiKey.FETCH)   -> the Message of an API; response_message likewise; known_message of APIs in the facts
    read_request_header(data)       -> RequestHeader; read_response_header likewise

    >>> heartbeat = message("HeartbeatRequest")
    >>> print(heartbeat.versions, heartbeat.flexible_versions)
    0-4 4+
    >>> request = heartbeat.from_json(4, '{"groupId": "orders", "generationId": 7, "memberId": "m-1", "groupInstanceId": null}')
    >>> data = heartbeat.encode(4, request)
    >>> data.hex()
    '076f726465727300000007046d2d310000'
    >>> heartbeat.decode(4, data).generation_id
    7
    >>> heartbeat.to_json(4, data)
    b'{"groupId":"orders","generationId":7,"memberId":"m-1","groupInstanceId":null}'
    >>> heartbeat.decode(4, data[:-3])
    Traceback (most recent call last):
    kproxy.errors.Truncated: HeartbeatRequest v4: memberId: needs 3 bytes, 2 left (at byte 12)

Any bytes give a value or a DecodeError that names message, version, field and byte. Unknown tagged fields are kept and written
back in their places.

Map

    facts.txt         every message, version, field and error code of Kafka's jars, one field a line; written by kproxy.extract
    facts.py          reads it into Field, Layout, Api; read_data_file for the other text files of this package
    releases.txt      the Kafka release that introduced each version, if a published reference says so
    wire.pxd          bounds-checked readers of primitive types, and the growing write buffer: the only code that dereferences
                      pointers into wire bytes
    program.pyx       compiles a layout at one version to a table of operations; checks bytes by it and locates errors
    json_sink.pyx     the same table -> Kafka's JSON, directly into a buffer
    found.pyx         the same table -> error codes, topics, partitions and groups, for counts
    object_codec.pyx  the same table -> one slotted, mutable object for each struct (structs.py), and objects -> bytes
    slots.pxd         where an attribute is inside an instance of a struct
    message.py        Message: the public interface to all of these; former layouts, versions newer than the facts
    from_json.py      Kafka's JSON -> objects
    headers.pyx       request and response headers; which header version belongs to which API version
    versions.py       Versions: sets of versions, as Kafka's schemas write them
    api_keys.py       ApiKey: the number of every API, by name
    error_codes.py    ErrorCode: the number of every error code, by name; whether to retry, its meaning, what a client does next
    direction.py      Direction: request (0) or response (1); direction.pxd has the same numbers for C
    constants.py      the size field, the largest frame, the first byte of a raw GSSAPI token, the null id, internal topics
    values.py         special values by name: ListOffsets times, acks, isolation levels, resource types, operations, states
    secrets.py        which fields carry credentials
    judgements.py     kproxy's decisions about each API: may a replay send it, does it carry names of tenants
    vocabulary.py     the fields of conditions (--where, the page's filter, breakpoints, rules of filters): names, types, meanings
    expressions.py    CEL expressions of conditions, with their mistakes; comparisons that can never be true
    addresses.py      "host:port" as text, both ways; IPv4-mapped IPv6 addresses
    records/          records fields: batches of every magic, compression, records as objects and Arrow columns
    embedded/         payloads inside bytes and records fields: group metadata, SASL tokens, telemetry, forwarded requests, ...

Bytes: every reading function takes ``bytes`` and a start, and copies only what it returns; a decoded object shares nothing with
the bytes. All sinks (walk, JSON, object) execute the same table with the same readers, so they agree on what is well formed;
if one stops, the walk says where and why (DecodeError).

To add
    a Kafka release, an API, a version   ``python -m kproxy.extract`` (see kproxy.extract), then releases.txt by hand;
                                         api_judgements.txt first, for a new API
    a quirk that no schema states        headers.pyx for headers, message.py for layouts, with a citation; the session's are in
                                         kproxy.session.exchanges
    a compression codec                  records/compression.py (see kproxy.protocol.records)
    an embedded payload                  embedded/payload.py (see kproxy.protocol.embedded)
    a field that is a credential         secrets.py
    a special value's name               special_values.txt
    another output of the walk           a sink like json_sink.pyx that follows program.pxd's Op table

Only facts that no schema states are written by hand, each with its source.
"""

from kproxy.protocol.api_keys import ApiKey
from kproxy.protocol.direction import Direction
from kproxy.protocol.facts import facts
from kproxy.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
)
from kproxy.protocol.message import Beginning, Message, known_message, message, request_message, response_message
from kproxy.protocol.structs import MessageStruct, Struct
from kproxy.protocol.versions import Versions

__all__ = [
    "ApiKey",
    "Beginning",
    "Direction",
    "Message",
    "MessageStruct",
    "RequestHeader",
    "ResponseHeader",
    "Struct",
    "Versions",
    "facts",
    "known_message",
    "message",
    "read_request_header",
    "read_response_header",
    "request_header_version",
    "request_message",
    "response_header_version",
    "response_message",
]
