"""Check how well the bytes of a frame, or its first bytes, fit the layout of a message."""

import functools

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, read_response_header, request_message
from kproxy.protocol.message import Message
from kproxy.session.exchanges import Route

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
def may_be_newer(api_key: int, api_version: int) -> bool:
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
