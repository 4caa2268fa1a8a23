"""What the first bytes are: Kafka, or another protocol, in words for a person (which side, what to change).

Kafka's four-byte size is what other protocols are mistaken for: a TLS record reads as a frame of 369 MB, ``GET `` as
one of 1.2 GB. Four bytes therefore settle nearly everything. Not here: following a connection, which is session.pyx.
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

SMALLEST_REQUEST = 10  # api_key, api_version, correlation id, length of the client id
HEADER_BYTES = 1024  # enough for the header of any plausible request

_ENOUGH_OF_REQUEST = 14  # its size too
_SMALLEST_RESPONSE = 5  # correlation id, and no body is empty
_RESPONSE_START = 8  # size and correlation id
_ENOUGH_RESPONSES = 64
_ALIGNED = 3
_LEFT_OUT = 1_000  # correlation ids in a row without a response: acks=0
_NEWEST_API_KEY = 1_000  # room for APIs that are newer than the facts
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

    None, too, for a first request that could be one by its header, but is not as its layout has it: the response will tell.
    A response has few marks: any size that a broker could send counts as KAFKA there.
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
    what = "the first bytes are no Kafka request and nothing else kproxy knows"
    return Foreign("unknown", Direction.REQUEST, what)


def _foreign_by_size(size_field: bytes, direction: Direction) -> Foreign | None:
    """A Foreign for a size field that no Kafka peer sends; None for any other."""
    if 0 <= int.from_bytes(size_field, "big", signed=True) <= FRAME_LIMIT:
        return None
    return foreign_size(size_field, direction) or Foreign(
        "unknown", direction, f"the first bytes ({size_field.hex(' ')}) are no frame size and nothing else kproxy knows"
    )


def foreign_size(size_field: bytes, direction: Direction) -> Foreign | None:
    """The protocol known to begin with these four bytes, where Kafka has a frame's size; None: no known one."""
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
    """Other protocols whose first message has a size that could be Kafka's; *data* is what follows the size field."""
    start = bytes(data[:12])
    if start[:4] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30") or start.startswith(b"\x00\x03\x00\x00user"):
        what = "the client speaks PostgreSQL: it has the wrong port"
        return Foreign("postgresql", Direction.REQUEST, what)
    if len(data) in (44, 45) and data[24:28] == b"\x00\x00\x00\x10" and start[:4] == b"\x00\x00\x00\x00":
        what = "the client speaks ZooKeeper's protocol: it has the wrong port"
        return Foreign("zookeeper", Direction.REQUEST, what)
    return None


def looks_like_request(data: bytes) -> bool:
    """Whether *data* begins with a plausible Kafka request frame, size field included; it need not be whole.

    A size within bounds, a known API at a known version, a sane client id; and when the frame is whole, a body that its layout
    consumes exactly, or to its last bytes if the client says who it is: brokers ignore what comes after a message.
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
    """Whether a whole frame, whose header is plausible, is a request that names its client, and a few bytes behind it."""
    try:
        header = read_request_header(frame)
    except DecodeError:
        return False
    message = request_message(header.api_key)
    if message is None or header.api_version not in message.versions or not header.client_id:
        return False
    return 0 <= leftover(message, header.api_version, frame, header.size, len(frame)) <= MOST_TRAILING


def _looks_newer(data: bytes) -> bool:
    """Whether *data* begins with a request of a client that is newer than the facts, and says who it is.

    For a connection's first bytes only: only its size, small numbers and a client id can be checked.
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
    """Whether an API, or a version of one, that the facts lack could be one of a newer release."""
    if not (0 <= header.api_key <= _NEWEST_API_KEY and 0 <= header.api_version <= _NEWEST_API_VERSION):
        return False
    return sane_client_id(header.client_id)


def may_be_response(data: bytes) -> bool:
    """Whether *data* begins with a size and a correlation id: a cheap check before ``looks_like_responses``."""
    size, correlation_id = (int.from_bytes(data[at : at + 4], "big", signed=True) for at in (0, 4))
    return len(data) >= _RESPONSE_START and _SMALLEST_RESPONSE <= size <= FRAME_LIMIT and correlation_id >= 0


def looks_like_responses(data: bytes, begins: Container[int] | None = None) -> bool:
    """Whether *data* begins with frames as a broker's: responses, whole, each with a correlation id near the last one's.

    For a direction of which the other is missing; with the requests at hand, pairing says it better. Two frames are enough:
    the second stands where the first one's size says. The ids need not ascend (Java's Metadata request gets its own before
    the ApiVersions request that goes first), but none comes twice.
    Where *data* is not the beginning of a connection, *begins* are the positions at which segments begin: brokers write whole
    responses, so that two of them, or what follows them, must begin one: three in all. Arrays of small numbers do not.
    """
    position = last = aligned = 0
    found: set[int] = set()
    while len(data) - position >= _RESPONSE_START and len(found) < _ENOUGH_RESPONSES:
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        correlation_id = int.from_bytes(data[position + 4 : position + 8], "big", signed=True)
        if not found and _answers_zookeeper(data):
            return False
        far = correlation_id < 0 or (found and abs(correlation_id - last) > _LEFT_OUT)
        if not _SMALLEST_RESPONSE <= size <= FRAME_LIMIT or far or correlation_id in found:
            return False
        aligned += begins is not None and position in begins
        if position + 4 + size > len(data):
            break
        position += 4 + size
        last = correlation_id
        found.add(correlation_id)
    aligned += position == len(data)
    return len(found) >= 2 and (begins is None or aligned >= _ALIGNED)


def _answers_zookeeper(data: bytes) -> bool:
    """Whether *data* is what a ZooKeeper server says first: version 0, a timeout, a session and a password of 16 bytes."""
    return int.from_bytes(data[:4], "big") in (36, 37) and data[20:24] == b"\x00\x00\x00\x10" and data[4:8] == bytes(4)


def is_request(data: bytes) -> bool:
    """Whether *data*, what follows a size field, is to its last byte a request of a known API at a known version.

    Or an ApiVersions request at a newer version, by its first fields: where such a request ends is unknown.
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
    """Whether *data* begins with the header of a request that could be one; of a long one the start is enough."""
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
    """Whether a client id is what people and libraries choose: short, without control characters."""
    return client_id is None or (len(client_id) <= 512 and (client_id == "" or client_id.isprintable()))
