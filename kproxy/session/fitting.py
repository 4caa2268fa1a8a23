"""How well the bytes of a frame fit the layout of its message, also while only the first of them are here."""

import functools

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, read_response_header, request_message
from kproxy.protocol.message import Message
from kproxy.session.exchanges import Route

MOST_TRAILING = 16  # bytes after a message that real clients send (librdkafka: 4); more make a frame unlikely
PENDING = -1  # too little is here to tell
BROKEN = -2  # no layout fits
_NEXT_VERSIONS = 8  # that the releases of some years add to an API


@functools.cache
def is_known(api_key: int, api_version: int) -> bool:
    """Whether the facts have that version of an API; both are bytes."""
    message = request_message(api_key)
    return message is not None and api_version in message.versions


@functools.cache
def may_be_newer(api_key: int, api_version: int) -> bool:
    """Whether a version that the facts lack may be one of the next releases; the versions of an unknown API begin with 0."""
    message = request_message(api_key)
    return 0 <= api_version - (0 if message is None else message.versions.highest) <= _NEXT_VERSIONS


def leftover(message: Message, version: int, data: bytes, start: int, size: int) -> int:
    """How many bytes of a frame follow its message; PENDING while too little of it is here, BROKEN when no layout fits.

    Args:
        message, version: what it is read as.
        data, start: what is here of the frame, and where in it the body begins.
        size: of the whole frame.
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
    """As ``leftover``, of a response to that route; *data* is what is here behind the size field."""
    try:
        start = read_response_header(data, route.response_header_version).size
    except DecodeError as error:
        return PENDING if len(data) < size and error.needed is not None else BROKEN
    if route.response is None:
        return BROKEN
    found = leftover(route.response, route.api_version, data, start, size)
    if found < 0 and route.api_key == ApiKey.API_VERSIONS:
        # A broker that lacks the version answers in the layout of version 0 (ApiVersionsResponse.parse, KIP-511).
        found = max(found, leftover(route.response, 0, data, start, size))
    return found
