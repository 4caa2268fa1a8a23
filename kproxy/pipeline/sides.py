"""Find the client of a flow whose beginning, or whose other direction, was not captured.

Requests are searched for in both directions (kproxy.session.hunting). The direction of the first request found is the
client's; so is the direction of a possible request if the other direction has its response. A request with an unmistakable
header need not be complete, as it may be larger than the bytes held. If a snaplen cuts requests, two in a row decide, or one
with its response.
"""

from collections.abc import Callable

from kproxy.protocol.constants import FRAME_LIMIT, SIZE_FIELD
from kproxy.session import Direction
from kproxy.session.exchanges import Route
from kproxy.session.request_hunting import CutStart, RequestHunt
from kproxy.session.response_hunting import ResponseHunt


class Sides:
    """Reads pieces of both directions until one direction is certainly the client's.

    Args:
        most_held: bytes of one direction to hold for a possible request.
    """

    def __init__(self, most_held: int) -> None:
        self._most_held = most_held
        self._requests = [self._hunt_requests() for _ in Direction]
        # The hunts before the latest gap of each direction: a response may still confirm their candidates.
        self._before = [self._hunt_requests() for _ in Direction]
        self._responses = [self._hunt_responses(direction) for direction in Direction]
        self._cut_starts: list[CutStart | None] = [None, None]  # the latest one of each direction

    def _hunt_requests(self) -> RequestHunt:
        return RequestHunt(FRAME_LIMIT, 0, most_held=self._most_held)

    def _hunt_responses(self, direction: int) -> ResponseHunt:
        return ResponseHunt(self._most_held, 0, self._sought_of(1 - direction))

    def _sought_of(self, client: int) -> Callable[[], list[tuple[int, Route | None]]]:
        def sought() -> list[tuple[int, Route | None]]:
            return self._requests[client].sought() + self._before[client].sought()

        return sought

    def held(self, direction: int) -> int:
        """Return how many of the latest bytes of a direction could belong to an incomplete request."""
        return self._requests[direction].held

    def read(self, direction: int, data: bytes) -> int | None:
        """Read the next piece; return the client's direction once it is certain."""
        requests = self._requests[direction]
        if requests.feed(data, 0) or requests.expects_one:
            return direction
        responses = self._responses[direction]
        return self._client_of(direction, responses) if responses.feed(data, 0) else None

    def _client_of(self, direction: int, responses: ResponseHunt) -> int | None:
        """Return the client's direction if a hunt has found a response to a possible request; hunt for the next one."""
        frame = b"".join(piece for piece, _, _ in responses.rest())
        self._responses[direction] = self._hunt_responses(direction)
        size = int.from_bytes(frame[:SIZE_FIELD], "big")
        response, client = frame[SIZE_FIELD : SIZE_FIELD + size], 1 - direction
        hunts = (self._requests[client], self._before[client])
        return client if any(hunt.confirm(response, size) for hunt in hunts) else None

    def interrupt(self, direction: int, unrecorded: int = 0) -> int | None:
        """Note that bytes of a direction are missing here; return the client's direction if the bytes before decide it.

        *unrecorded*: how many of the missing bytes a snaplen cut off the packet.
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
        """Return the direction that must hold a request, given that no more bytes will come."""
        return next((direction for direction in Direction if self._requests[direction].finish_as_unknown()), None)
