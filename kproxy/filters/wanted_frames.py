"""Which filters want a frame, of those that want its API and version: ``Filter.wants_frame``, called before a body is decoded."""

from collections.abc import Callable

from kproxy.errors import DecodeError
from kproxy.filters.contract import ConnectionFacts, Direction, Filter, RequestFacts
from kproxy.protocol import read_request_header
from kproxy.protocol.frames import SIZE_FIELD


def wanting(
    filters: tuple[Filter, ...],
    connection: ConnectionFacts,
    direction: Direction,
    request: RequestFacts,
    frame: bytes,
    on_fault: Callable[[Filter, Exception], None],
) -> tuple[Filter, ...]:
    """Return those of *filters* that want the frame, in their order.

    Args:
        filters: those that want its API and version in this direction.
        connection, direction, request: those of the frame. The client id of a request is read from the frame.
        frame: complete, size field included.
        on_fault: called with what a filter raises; that filter gets the frame.
    """
    if not any(_is_asked(filter_) for filter_ in filters):
        return filters
    if direction == Direction.REQUEST:
        try:
            request.client_id = read_request_header(frame, SIZE_FIELD).client_id
        except DecodeError:  # a fault of each filter that wants to read it
            return filters
    wanted = []
    for filter_ in filters:
        try:
            if _is_asked(filter_) and not filter_.wants_frame(connection, direction, request.copy()):
                continue
        except Exception as error:
            on_fault(filter_, error)
        wanted.append(filter_)
    return tuple(wanted)


def _is_asked(filter_: Filter) -> bool:
    return type(filter_).wants_frame is not Filter.wants_frame
