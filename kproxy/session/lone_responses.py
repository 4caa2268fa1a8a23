"""Recognise responses without their requests: each complete body must fit the layout of some API at some version.

Many protocols have sizes and ascending numbers (recognise.looks_like_responses), but the layouts are Kafka's: a body of another
protocol rarely fits one of them to its last byte, and hardly ever several in a row. The API remains unknown, as small bodies
fit many layouts.
"""

from collections.abc import Iterable, Iterator
from functools import cache

from kproxy.protocol import request_message
from kproxy.protocol.facts import facts
from kproxy.protocol.frames import SIZE_FIELD
from kproxy.session.exchanges import Route, route_of
from kproxy.session.fitting import BROKEN, response_leftover

_ENOUGH = 2  # complete bodies that must fit
_MOST = 8  # frames examined


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

    Args:
        data: consecutive frames.
        holes: (start, end) of bytes that were not recorded, in order; a frame counts as cut at its first hole.
    """
    complete = 0
    for frame, size in _frames(data, list(holes)):
        if not _has_layout(frame, size):
            return False
        complete += len(frame) == size
    return complete >= _ENOUGH


def _frames(data: bytes, holes: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
    """Yield each frame's recorded bytes behind its size field, and its size."""
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
