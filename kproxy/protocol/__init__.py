"""What the bytes mean. No I/O beyond reading the facts file that lies in the package, no clock, no state between calls.

Seams (who owns which bytes)

    facts.txt       every message, version, field, error code, as Kafka's jars give them; made by kproxy.extract, one line a field
    facts.py        reads it into Field, Layout, Api
    releases.txt    which Kafka release brought which version, where a published reference says so
    wire.pxd        bounds-checked readers and the growing write buffer: the only place that touches raw pointers unasked
    program.pyx     a layout at one version compiled to a table of operations; the walk; where an error is
    json_sink.pyx   the same table -> Kafka's JSON, straight into a buffer
    object_sink.pyx the same table -> one slotted, mutable class a struct (structs.py), for all versions
    encoder.pyx     objects -> bytes
    message.py      Message: the public face of the above; layouts in history, versions newer than the facts
    headers.py      request and response headers, frames; which header version belongs to what
    api_keys.py     ApiKey: the number of every API, by name
    error_codes.py  ErrorCode: the number of every error code, by name; whether to retry, its meaning, what a client does next
    direction.py    Direction: request (0) or response (1); direction.pxd has the same numbers for C
    frames.py       the size field, the largest frame, the first byte of a raw GSSAPI token
    ids.py          the null id, the id of __cluster_metadata
    addresses.py    "host:port" as text, both ways; IPv4-mapped IPv6 addresses
    values.py       special values by name: ListOffsets times, acks, isolation levels, resource types, operations, states
    secrets.py      which fields carry credentials
    records/        what is in records fields: batches of every magic, their records as objects and Arrow columns, and back
    embedded/       what is inside bytes and records fields; its docstring says how

What is written by hand is what no schema says; each such line cites where it comes from.
"""

from kproxy.errors import DecodeError, EncodeError, Malformed, TrailingBytes, Truncated, UnknownVersion
from kproxy.protocol.api_keys import ApiKey
from kproxy.protocol.direction import Direction
from kproxy.protocol.facts import facts, releases
from kproxy.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
)
from kproxy.protocol.message import Fit, Message, message, request_message, response_message
from kproxy.protocol.structs import MessageStruct, Struct
from kproxy.protocol.versions import Versions

__all__ = [
    "ApiKey",
    "DecodeError",
    "Direction",
    "EncodeError",
    "Fit",
    "Malformed",
    "Message",
    "MessageStruct",
    "RequestHeader",
    "ResponseHeader",
    "Struct",
    "TrailingBytes",
    "Truncated",
    "UnknownVersion",
    "Versions",
    "facts",
    "message",
    "read_request_header",
    "read_response_header",
    "releases",
    "request_header_version",
    "request_message",
    "response_header_version",
    "response_message",
]
