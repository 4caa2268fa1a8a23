"""Whether frames without their requests are responses: each whole body has a layout that some API has, at some version.

Many protocols have sizes and numbers that count (recognise.looks_like_responses). The layouts are Kafka's: a body of another
protocol that fits one of them to its last byte is rare, and several in a row are more so. Which API it was is not told, as small
bodies fit many.
"""

from collections.abc import Iterable, Iterator
from functools import cache

from kproxy.protocol import request_message
from kproxy.protocol.facts import facts
from kproxy.protocol.frames import SIZE_FIELD
from kproxy.session.exchanges import Route, route_of
from kproxy.session.fitting import BROKEN, response_leftover

_ENOUGH = 2  # whole bodies that fit
_MOST = 8  # frames that are looked at


@cache
def _routes() -> list[Route]:
    """The routes of all APIs; those that fitted last come first, as the next responses are like them."""
    found = []
    for api_key in facts().apis:
        message = request_message(api_key)
        versions = () if message is None else range(message.versions.lowest, message.versions.highest + 1)
        found += [route for version in versions if (route := route_of(api_key, version)) is not None]
    return [route for route in found if route.response is not None]


def have_layouts(data: bytes, holes: Iterable[tuple[int, int]] = ()) -> bool:
    """Whether the bodies of the frames that *data* begins with have layouts of responses.

    Args:
        data: frames in a row.
        holes: the (start, end) of bytes that were not recorded, in order; they count as cut off the frame that they are in.
    """
    whole = 0
    for frame, size in _frames(data, list(holes)):
        if not _has_layout(frame, size):
            return False
        whole += len(frame) == size
    return whole >= _ENOUGH


def _frames(data: bytes, holes: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
    """What is here of each frame behind its size field, and its size."""
    position = 0
    for _ in range(_MOST):
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
