"""Recognise Kafka, or another protocol, by the first bytes, and explain in words which side is wrong and what to change.

Read as Kafka's size field, a TLS record is a frame of 369 MB, and ``GET `` one of 1.2 GB: the first four bytes usually decide.
Following a connection further is the task of session.pyx.
"""

import re
from collections.abc import Container
from enum import Enum
from typing import Final, Literal

from msgspec import Struct

from kproxy.errors import DecodeError, Truncated
from kproxy.protocol import ApiKey, Direction, RequestHeader, read_request_header, request_message
from kproxy.protocol.frames import FRAME_LIMIT, GSSAPI_FIRST_BYTE
from kproxy.session.fitting import MOST_TRAILING, leftover
from kproxy.session.software import client_software


class _Verdict(Enum):
    KAFKA = "kafka"


KAFKA: Final = _Verdict.KAFKA

SMALLEST_REQUEST = 10  # bytes of api_key, api_version, correlation id, and the length of the client id
HEADER_BYTES = 1024  # enough for any plausible request header

_ENOUGH_OF_REQUEST = 14  # SMALLEST_REQUEST with the size field
_SMALLEST_RESPONSE = 5  # correlation id, and a body that is never empty
_RESPONSE_START = 8  # size and correlation id
_ENOUGH_RESPONSES = 64  # frames examined at most
_ALIGNED = 3  # frames that must begin where a segment begins
_LEFT_OUT = 1_000  # the largest distance of consecutive responses' ids, as requests with acks=0 have no response
_NEWEST_API_KEY = 1_000  # leaves room for APIs newer than the facts
_NEWEST_API_VERSION = 100


class Foreign(Struct, frozen=True):
    """Not Kafka: *kind* is tls, http, ssh, proxy, postgresql, zookeeper, text or unknown; *what* is for people."""

    kind: str
    direction: Direction
    what: str


_TLS_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")  # RFC 8446 section 5.1: content type, legacy version
_HTTP_REQUEST = re.compile(rb"GET |POST|PUT |HEAD|DELE|OPTI|PATC|CONN|TRAC|PRI ")
_TEXT = re.compile(rb"[\x20-\x7e\r\n\t]{4}")

_TLS_WORDS = {
    Direction.REQUEST: (
        "the client speaks TLS: give kproxy the session keys (--keylog FILE, written by the client or the broker), "
        "or record on a PLAINTEXT listener"
    ),
    Direction.RESPONSE: (
        "the broker answers in TLS, so its listener is SSL or SASL_SSL: set security.protocol on the client if it does "
        "not speak TLS, and give kproxy the session keys (--keylog FILE)"
    ),
}
_TLS_ALERT_WORDS = {
    Direction.REQUEST: "the client sent a TLS alert: it gave up a handshake; compare security.protocol on both sides",
    Direction.RESPONSE: (
        "the broker answered with a TLS alert: its listener is TLS and the client speaks in the clear; "
        "set security.protocol=SSL (or SASL_SSL) on the client"
    ),
}
_HTTP_WORDS = {
    Direction.REQUEST: "the client speaks HTTP: a browser, a health check or a scraper with the wrong port",
    Direction.RESPONSE: "the broker side answers in HTTP: the client's bootstrap.servers names a web server's port",
}
_SSH_WORDS = {
    Direction.REQUEST: "the client speaks SSH: it has the wrong port",
    Direction.RESPONSE: "the broker side speaks SSH: the client's bootstrap.servers names an SSH port",
}
_PROXY_WORDS = (
    "a load balancer put a PROXY protocol header before the client's bytes, which brokers do not read: "
    "turn it off towards this port"
)


def recognise(first_bytes: bytes, direction: Direction) -> Foreign | Literal[_Verdict.KAFKA] | None:
    """Return what a direction begins with: KAFKA, a Foreign, or None while more bytes are needed.

    None, too, if the header is that of a request but the body does not fit its layout: the response will decide.
    Responses have few distinctive bytes: any size that a broker could send counts as KAFKA.
    """
    foreign = _foreign_by_size(bytes(first_bytes[:4]), direction) if len(first_bytes) >= 4 else None
    if foreign is not None:
        return foreign
    if len(first_bytes) < (_ENOUGH_OF_REQUEST if direction == Direction.REQUEST else 4):
        return None
    return KAFKA if direction == Direction.RESPONSE else _recognise_request(first_bytes)


def _recognise_request(first_bytes: bytes) -> Foreign | Literal[_Verdict.KAFKA] | None:
    foreign = foreign_request(first_bytes[4:])
    if foreign is not None:
        return foreign
    if looks_like_request(first_bytes) or _looks_newer(first_bytes) or first_bytes[4] == GSSAPI_FIRST_BYTE:
        return KAFKA
    if _has_request_header(first_bytes):
        return None
    what = "the first bytes are no Kafka request and nothing else that kproxy knows"
    return Foreign("unknown", Direction.REQUEST, what)


def _foreign_by_size(size_field: bytes, direction: Direction) -> Foreign | None:
    """Return a Foreign for a size field that no Kafka peer sends, else None."""
    if 0 <= int.from_bytes(size_field, "big", signed=True) <= FRAME_LIMIT:
        return None
    return foreign_size(size_field, direction) or Foreign(
        "unknown",
        direction,
        f"the first bytes ({size_field.hex(' ')}) are no frame size and nothing else that kproxy knows",
    )


def foreign_size(size_field: bytes, direction: Direction) -> Foreign | None:
    """Return the protocol that begins with these four bytes instead of a frame size; None if kproxy knows none."""
    if _TLS_RECORD.match(size_field):
        words = _TLS_ALERT_WORDS if size_field[0] == 0x15 else _TLS_WORDS
        return Foreign("tls", direction, words[direction])
    if _HTTP_REQUEST.match(size_field) or size_field == b"HTTP":
        return Foreign("http", direction, _HTTP_WORDS[direction])
    if size_field == b"SSH-":
        return Foreign("ssh", direction, _SSH_WORDS[direction])
    if size_field in (b"PROX", b"\r\n\r\n"):  # the PROXY protocol's specification, sections 2.1 and 2.2
        return Foreign("proxy", direction, _PROXY_WORDS)
    if _TEXT.fullmatch(size_field):
        start = size_field.decode("ascii").encode("unicode_escape").decode("ascii")
        return Foreign("text", direction, f"the {_side(direction)} speaks a text protocol that begins with '{start}'")
    return None


def _side(direction: Direction) -> str:
    return "client" if direction == Direction.REQUEST else "broker side"


def foreign_request(data: bytes) -> Foreign | None:
    """Return another protocol whose first message begins with a plausible frame size; *data* follows the size field."""
    start = bytes(data[:12])
    if start[:4] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30") or start.startswith(b"\x00\x03\x00\x00user"):
        what = "the client speaks PostgreSQL: it has the wrong port"
        return Foreign("postgresql", Direction.REQUEST, what)
    if len(data) in (44, 45) and data[24:28] == b"\x00\x00\x00\x10" and start[:4] == b"\x00\x00\x00\x00":
        what = "the client speaks ZooKeeper's protocol: it has the wrong port"
        return Foreign("zookeeper", Direction.REQUEST, what)
    return None


def looks_like_request(data: bytes) -> bool:
    """Return whether *data* begins with a plausible Kafka request, its size field included; it may be incomplete.

    Plausible means a size within bounds, a known API at a known version, and a sane client id. If the frame is complete, its
    layout must also fit the body, with a few bytes left over if the client has an id: brokers ignore bytes after a message.
    """
    if not _has_request_header(data):
        return False
    size = int.from_bytes(data[:4], "big")
    frame = bytes(data[4 : 4 + size])
    return len(frame) < size or is_request(frame) or _has_little_behind(frame)


def _has_request_header(data: bytes) -> bool:
    size = int.from_bytes(data[:4], "big", signed=True)
    if len(data) < _ENOUGH_OF_REQUEST or not SMALLEST_REQUEST <= size <= FRAME_LIMIT:
        return False
    return looks_like_request_header(bytes(data[4 : 4 + min(size, HEADER_BYTES)]))


def _has_little_behind(frame: bytes) -> bool:
    """Return whether a complete frame with a plausible header is a request with a client id and a few bytes behind it."""
    try:
        header = read_request_header(frame)
    except DecodeError:
        return False
    message = request_message(header.api_key)
    if message is None or header.api_version not in message.versions or not header.client_id:
        return False
    return 0 <= leftover(message, header.api_version, frame, header.size, len(frame)) <= MOST_TRAILING


def _looks_newer(data: bytes) -> bool:
    """Return whether *data* begins with a request that names its client but is newer than the facts.

    Only for the first bytes of a connection: nothing but the size, small numbers and a client id can be checked.
    """
    if not SMALLEST_REQUEST <= int.from_bytes(data[:4], "big", signed=True) <= FRAME_LIMIT:
        return False
    start = data[4 : 4 + HEADER_BYTES]
    message = request_message(int.from_bytes(start[:2], "big", signed=True))
    if message is not None and int.from_bytes(start[2:4], "big", signed=True) <= message.versions.highest:
        return False
    try:
        header = read_request_header(start)
    except DecodeError:
        return False
    return may_be_newer(header) and bool(header.client_id)


def may_be_newer(header: RequestHeader) -> bool:
    """Return whether an API or version that the facts lack could come from a newer release."""
    if not (0 <= header.api_key <= _NEWEST_API_KEY and 0 <= header.api_version <= _NEWEST_API_VERSION):
        return False
    return sane_client_id(header.client_id)


def may_be_response(data: bytes) -> bool:
    """Return whether *data* begins with a plausible size and correlation id: a cheap check before ``looks_like_responses``."""
    size, correlation_id = (int.from_bytes(data[at : at + 4], "big", signed=True) for at in (0, 4))
    return len(data) >= _RESPONSE_START and _SMALLEST_RESPONSE <= size <= FRAME_LIMIT and correlation_id >= 0


def looks_like_responses(data: bytes, begins: Container[int] | None = None) -> bool:
    """Return whether *data* begins with complete frames like a broker's, each with a correlation id near the one before.

    For connections whose requests are missing; with requests, pairing is the better test. Two frames are enough: the second
    begins where the first one's size says. The ids need not ascend (Java assigns the id of its Metadata request before that of
    the ApiVersions request, which is sent first), but no id occurs twice.
    If *data* is not the beginning of a connection, *begins* holds the positions at which segments begin. Brokers write complete
    responses, so at least three frames must begin there (the end of *data* counts, too); arrays of small numbers fail this.
    """
    position = last = aligned = 0
    ids: set[int] = set()  # correlation ids
    while len(data) - position >= _RESPONSE_START and len(ids) < _ENOUGH_RESPONSES:
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        correlation_id = int.from_bytes(data[position + 4 : position + 8], "big", signed=True)
        if not ids and _answers_zookeeper(data):
            return False
        far = correlation_id < 0 or (ids and abs(correlation_id - last) > _LEFT_OUT)
        if not _SMALLEST_RESPONSE <= size <= FRAME_LIMIT or far or correlation_id in ids:
            return False
        aligned += begins is not None and position in begins
        if position + 4 + size > len(data):
            break
        position += 4 + size
        last = correlation_id
        ids.add(correlation_id)
    aligned += position == len(data)
    return len(ids) >= 2 and (begins is None or aligned >= _ALIGNED)


def _answers_zookeeper(data: bytes) -> bool:
    """Return whether *data* is a ZooKeeper server's first message: version 0, a timeout, a session, a 16-byte password."""
    return int.from_bytes(data[:4], "big") in (36, 37) and data[20:24] == b"\x00\x00\x00\x10" and data[4:8] == bytes(4)


def is_request(data: bytes) -> bool:
    """Return whether *data* (without size field) is exactly one request of a known API at a known version.

    An ApiVersions request at a newer version counts if its first fields fit: where it ends is unknown.
    """
    try:
        header = read_request_header(data)
        message = request_message(header.api_key)
        if message is None or not sane_client_id(header.client_id):
            return False
        if header.api_version not in message.versions:
            return _is_newer_api_versions(header, data)
        message.check(header.api_version, data, header.size)
    except DecodeError:
        return False
    return True


def _is_newer_api_versions(header: RequestHeader, data: bytes) -> bool:
    return (
        header.api_key == ApiKey.API_VERSIONS
        and may_be_newer(header)
        and client_software(data, header.size) is not None
    )


def looks_like_request_header(data: bytes) -> bool:
    """Return whether *data* begins with a plausible request header; the beginning of a long header is enough."""
    api_key, api_version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (0, 2))
    message = request_message(api_key)
    newer = api_key == ApiKey.API_VERSIONS and api_version <= _NEWEST_API_VERSION
    if message is None or (api_version not in message.versions and not newer):
        return False
    try:
        return sane_client_id(read_request_header(data).client_id)
    except Truncated:
        return len(data) < HEADER_BYTES - 4 or data[8] < 2
    except DecodeError:
        return False


def sane_client_id(client_id: str | None) -> bool:
    """Return whether a client id is like those that people and libraries choose: short, without control characters."""
    return client_id is None or (len(client_id) <= 512 and (client_id == "" or client_id.isprintable()))
