"""Find the client of a flow whose beginning, or whose other side, was not captured.

Requests are searched for in both directions (kproxy.session.hunting). The direction of the first request found is the client's;
a response in one direction to a possible request in the other decides it too. A request may be larger than what is held: one
whose header is beyond doubt need not be whole. Of requests that a snaplen cut, two in a row decide it, or one and its response.
"""

from collections.abc import Callable

from kproxy.protocol.frames import FRAME_LIMIT, SIZE_FIELD
from kproxy.session import Direction
from kproxy.session.exchanges import Route
from kproxy.session.request_hunting import CutStart, RequestHunt
from kproxy.session.response_hunting import ResponseHunt


class Sides:
    """Reads the pieces of both directions until one of them must be the client's.

    Args:
        most_held: bytes of a direction that are held for what may be a request.
    """

    def __init__(self, most_held: int) -> None:
        self._most_held = most_held
        self._requests = [self._hunt_requests() for _ in Direction]
        self._before = [
            self._hunt_requests() for _ in Direction
        ]  # up to where bytes are missing: an answer may still come
        self._responses = [self._hunt_responses(direction) for direction in Direction]
        self._cut_starts: list[CutStart | None] = [None, None]  # of each direction, the last one

    def _hunt_requests(self) -> RequestHunt:
        return RequestHunt(FRAME_LIMIT, 0, most_held=self._most_held)

    def _hunt_responses(self, direction: int) -> ResponseHunt:
        return ResponseHunt(self._most_held, 0, self._sought_of(1 - direction))

    def _sought_of(self, client: int) -> Callable[[], list[tuple[int, Route | None]]]:
        def sought() -> list[tuple[int, Route | None]]:
            return self._requests[client].sought() + self._before[client].sought()

        return sought

    def held(self, direction: int) -> int:
        """Bytes at the end of what was read of a direction in which a request could begin."""
        return self._requests[direction].held

    def read(self, direction: int, data: bytes) -> int | None:
        """Read the next piece; give the client's direction once it is beyond doubt."""
        requests = self._requests[direction]
        if requests.feed(data, 0) or requests.expects_one:
            return direction
        responses = self._responses[direction]
        return self._client_of(direction, responses) if responses.feed(data, 0) else None

    def _client_of(self, direction: int, responses: ResponseHunt) -> int | None:
        """Give the client's direction if a hunt has found a response to what may be a request; hunt for the next one."""
        found = b"".join(piece for piece, _, _ in responses.rest())
        self._responses[direction] = self._hunt_responses(direction)
        size = int.from_bytes(found[:SIZE_FIELD], "big")
        response, client = found[SIZE_FIELD : SIZE_FIELD + size], 1 - direction
        hunts = (self._requests[client], self._before[client])
        return client if any(hunt.confirm(response, size) for hunt in hunts) else None

    def interrupt(self, direction: int, unrecorded: int = 0) -> int | None:
        """Learn that bytes of a direction are missing here; give the client's direction if what came before says so.

        *unrecorded*: that many of them were in the packet, behind what a snaplen left of it.
        """
        requests, responses = self._requests[direction], self._responses[direction]
        start = requests.finish_cut(unrecorded) if unrecorded else None
        self._before[direction] = requests
        self._requests[direction] = self._hunt_requests()
        if start is None and unrecorded and responses.finish(unrecorded):
            client = self._client_of(direction, responses)
        else:
            client = direction if start is not None and start.is_next(self._cut_starts[direction]) else None
        self._responses[direction] = self._hunt_responses(direction)
        self._cut_starts[direction] = start or self._cut_starts[direction]
        return client

    def claimed(self) -> int | None:
        """The direction that holds what must be a request as nothing more will come."""
        return next((direction for direction in Direction if self._requests[direction].finish_as_unknown()), None)
