"""Requests that are not answered yet, in order, and SASL tokens among them. Bounded by count and bytes."""

from collections import deque
from collections.abc import Iterator

from kproxy.errors import DecodeError
from kproxy.protocol import read_response_header
from kproxy.session.events import Exchange, Frame
from kproxy.session.limits import Limits
from kproxy.session.routes import Route

Entry = tuple[Exchange | None, Route | None]  # without an exchange: a token; without a route: an API nobody knows
TOKEN: Entry = (None, None)


class InFlight:
    """A queue of entries; responses come in request order, so its head is what the next response belongs to."""

    __slots__ = ("_limits", "_size", "queue")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._size = 0
        self.queue: deque[Entry] = deque()

    def add(self, exchange: Exchange, route: Route | None, size: int) -> bool:
        """Take a request whose frame holds *size* bytes; say whether there is now more than the limits allow."""
        queue = self.queue
        queue.append((exchange, route))
        self._size += size
        return self._size > self._limits.in_flight_size or len(queue) > self._limits.in_flight

    def add_token(self) -> bool:
        """Take a token, which the other side will answer with one; the result is as ``add``'s."""
        self.queue.append(TOKEN)
        return len(self.queue) > self._limits.in_flight

    @property
    def overfull(self) -> bool:
        """Whether the oldest must go; one alone may always stay."""
        held = len(self.queue)
        return held > 1 and (self._size > self._limits.in_flight_size or held > self._limits.in_flight)

    def take(self) -> Entry:
        """The head, removed. Raises IndexError when there is none."""
        entry = self.queue.popleft()
        exchange = entry[0]
        if exchange is not None and exchange.request is not None:
            self._size -= len(exchange.request.data)
        return entry

    def drop_tokens(self) -> None:
        """Forget the tokens: authentication is over."""
        self.queue = deque(entry for entry in self.queue if entry is not TOKEN)

    def skips_tokens(self, frame: Frame) -> bool:
        """Whether a response has the correlation id of the first request, though tokens that are not answered come before."""
        first = next((exchange for exchange, _ in self.queue if exchange is not None), None)
        return first is not None and correlation_id_of(frame.data) == first.correlation_id

    def sought(self) -> Iterator[tuple[int, Route]]:
        """Correlation ids and routes of the requests whose responses can be recognised, oldest first."""
        for exchange, route in self.queue:
            if exchange is not None and route is not None and exchange.correlation_id is not None:
                yield exchange.correlation_id, route

    def find(self, frame: Frame) -> int | None:
        """How many entries come before the request that *frame* answers; its header is then read. None: no request."""
        for index, (exchange, route) in enumerate(self.queue):
            if exchange is not None and _answers(frame, exchange, route):
                return index
        return None


def correlation_id_of(response: bytes) -> int | None:
    """The correlation id alone, of a response whose header may be damaged or cut short behind it."""
    try:
        return read_response_header(response[:4], 0).correlation_id
    except DecodeError:
        return None


def _answers(frame: Frame, exchange: Exchange, route: Route | None) -> bool:
    """Whether a response belongs to that request: its correlation id and, where the API is known, its whole body."""
    try:
        header = read_response_header(frame.data, 0 if route is None else route.response_header_version)
    except DecodeError:
        return False
    if header.correlation_id != exchange.correlation_id:
        return False
    if route is not None and not route.fits_response(frame.data):
        return False
    frame.header = header
    frame.body_start = header.size
    return True
