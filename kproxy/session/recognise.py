"""Recognise Kafka, or another protocol, by bytes alone, and explain in words which side is wrong and what to change.

Read as Kafka's size field, a TLS record is a frame of 369 MB, and ``GET `` one of 1.2 GB: the first four bytes usually decide.
Following a connection further is the task of session.pyx.

    recognise, foreign_request       the first bytes of a connection
    looks_like_request(s)            one direction without the other; the layouts of the facts decide
    client_software                  an ApiVersions request newer than the facts
    leftover, response_leftover      how well the bytes of a frame, or its first bytes, fit the layout of a message
    have_layouts                     responses without any request
"""

import functools
import re
from collections.abc import Container, Iterable, Iterator
from enum import Enum
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from kproxy.errors import DecodeError, Truncated
from kproxy.protocol import ApiKey, Direction, RequestHeader, read_request_header, read_response_header, request_message
from kproxy.protocol.constants import FRAME_LIMIT, GSSAPI_FIRST_BYTE, SIZE_FIELD
from kproxy.protocol.facts import facts
from kproxy.protocol.message import Message
from kproxy.session.exchanges import Route, route_of


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
    size = int.from_bytes(data[:4], "big")
    frame = bytes(data[4 : 4 + size])
    if len(frame) == size and SMALLEST_REQUEST <= size <= HEADER_BYTES and is_request(frame):
        return True  # the usual case: the header was read only once
    return _has_request_header(data) and (len(frame) < size or is_request(frame) or _has_little_behind(frame))


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


# ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN
_SOFTWARE = re.compile(rb"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
SOFTWARE_FROM = 3  # the api_version of ApiVersions whose request names the client's software (KIP-511)
_LONGEST_SOFTWARE_NAME = 126  # bytes: the longest COMPACT_STRING with a one-byte length


def client_software(data: bytes, start: int) -> tuple[str, str] | None:
    """Return name and version of the client's software, or None if the ApiVersions request at *start* does not begin with them.

    The newest clients begin with a request newer than the facts (franz-go sends version 5 since KIP-1242), and a broker that
    lacks the version answers after reading only the header (RequestContext.parseRequest, KIP-511). Every version since 3 begins
    with two names, which Kafka's pattern restricts, so they can be distinguished from other bytes.
    """
    name, position = _software_name(data, start)
    version, _ = _software_name(data, position)
    return None if name is None or version is None else (name, version)


def _software_name(data: bytes, start: int) -> tuple[str | None, int]:
    size = data[start] - 1 if start < len(data) else 0
    name = data[start + 1 : start + 1 + size]
    if not 0 < size <= _LONGEST_SOFTWARE_NAME or len(name) != size or _SOFTWARE.fullmatch(name) is None:
        return None, len(data)
    return name.decode("ascii"), start + 1 + size


MOST_TRAILING = 16  # bytes after a message that real clients send (librdkafka: 4); more make a frame unlikely
PENDING = -1  # more bytes are needed to tell
BROKEN = -2  # no layout fits
_NEXT_VERSIONS = 8  # versions that some years of releases may add to an API


@functools.cache
def is_known(api_key: int, api_version: int) -> bool:
    """Return whether the facts have that version of an API; both numbers are below 256."""
    message = request_message(api_key)
    return message is not None and api_version in message.versions


@functools.cache
def may_be_a_newer_version(api_key: int, api_version: int) -> bool:
    """Return whether an unknown version may be from one of the next releases; an unknown API begins with version 0."""
    message = request_message(api_key)
    return 0 <= api_version - (0 if message is None else message.versions.highest) <= _NEXT_VERSIONS


def leftover(message: Message, version: int, data: bytes, start: int, size: int) -> int:
    """Return how many bytes of a frame follow its message, PENDING if more of it is needed, or BROKEN if no layout fits.

    Args:
        message, version: the message it is read as.
        data, start: the received bytes of the frame, and where in them the body begins.
        size: the size of the complete frame.
    """
    best = BROKEN
    for program in message.programs(version):
        error = program.check(data, start)
        if error is None:
            left = size - len(data)
        elif error.needed == 0 and error.left is not None:  # bytes are left over after the message
            left = error.left + size - len(data)
        elif error.needed is not None and error.left is not None and error.needed - error.left <= size - len(data):
            left = PENDING
        else:
            continue
        best = left if best < 0 or 0 <= left < best else best
    return best


def response_leftover(route: Route, data: bytes, size: int) -> int:
    """As ``leftover``, for a response to that route; *data* is what was received behind the size field."""
    try:
        start = read_response_header(data, route.response_header_version).size
    except DecodeError as error:
        return PENDING if len(data) < size and error.needed is not None else BROKEN
    if route.response is None:
        return BROKEN
    left = leftover(route.response, route.api_version, data, start, size)
    if left < 0 and route.api_key == ApiKey.API_VERSIONS:
        # A broker that lacks the version answers in the layout of version 0 (ApiVersionsResponse.parse, KIP-511).
        left = max(left, leftover(route.response, 0, data, start, size))
    return left


_ENOUGH_BODIES = 2  # complete bodies that must fit
_MOST_BODIES = 8  # frames examined


@cache
def _routes() -> list[Route]:
    """Return the routes of all APIs. ``_has_layout`` moves a match to the front, as the next responses are probably alike."""
    routes = []
    for api_key in facts().apis:
        message = request_message(api_key)
        versions = () if message is None else range(message.versions.lowest, message.versions.highest + 1)
        routes += [route for version in versions if (route := route_of(api_key, version)) is not None]
    return [route for route in routes if route.response is not None]


def have_layouts(data: bytes, holes: Iterable[tuple[int, int]] = ()) -> bool:
    """Return whether the first frames in *data* have bodies with layouts of responses.

    Many protocols have sizes and ascending numbers (looks_like_responses), but the layouts are Kafka's: a body of another
    protocol rarely fits one of them to its last byte, and hardly ever several in a row. The API remains unknown, as small bodies
    fit many layouts.

    Args:
        data: consecutive frames.
        holes: (start, end) of bytes that were not recorded, in order; a frame counts as cut at its first hole.
    """
    complete = 0
    for frame, size in _frames(data, list(holes)):
        if not _has_layout(frame, size):
            return False
        complete += len(frame) == size
    return complete >= _ENOUGH_BODIES


def _frames(data: bytes, holes: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield each frame's recorded bytes behind its size field, and its size."""
    position = 0
    for _ in range(_MOST_BODIES):
        size = int.from_bytes(data[position : position + SIZE_FIELD], "big")
        start = position + SIZE_FIELD
        position = start + size
        if position > len(data):
            return
        hole = next((begin for begin, end in holes if end > start), position)
        yield data[start : min(hole, position)], size


def _has_layout(frame: bytes, size: int) -> bool:
    routes = _routes()
    for index, route in enumerate(routes):
        left = response_leftover(route, frame, size)
        if left == 0 or (left != BROKEN and len(frame) < size):
            routes.insert(0, routes.pop(index))
            return True
    return False
