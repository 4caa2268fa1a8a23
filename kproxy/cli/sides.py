"""Who is the client of a flow whose beginning, or whose other side, was not captured.

Clients write whole requests, so that pieces begin with them. But a response may read as a request, too: its zeros are an empty
client id and empty arrays, and now and then they fit to the last byte. Only a request with a client id therefore settles it
at once; another needs a response with its correlation id on the other side, or the end of the search. Responses alone have
no more than sizes and correlation ids that are near each other (a client's connections share one counter).
"""

from kproxy.session import looks_like_request

CLAIMS = 64  # correlation ids remembered of each direction
SMALLEST_RESPONSE = 4
LARGEST_FRAME = 104_857_600  # socket.request.max.bytes of a broker
MOST_SKIPPED = 1000  # correlation ids between two responses: Produce with acks=0 has none, other connections have some


class Sides:
    """Takes the pieces of both directions; says which of them is the client's."""

    def __init__(self) -> None:
        self._claims: tuple[set[int], set[int]] = (set(), set())
        self._responses = (ResponseChain(), ResponseChain())

    def read(self, direction: int, data: bytes) -> int | None:
        """The client's direction, once it is beyond doubt."""
        self._responses[direction].read(data)
        if looks_like_request(data):
            if int.from_bytes(data[12:14], "big", signed=True) > 0:  # the client id's size
                return direction
            if len(self._claims[direction]) < CLAIMS:
                self._claims[direction].add(int.from_bytes(data[8:12], "big"))
        answered = int.from_bytes(data[4:8], "big") in self._claims[1 - direction] and len(data) >= 8
        return 1 - direction if answered else None

    def lose(self, direction: int) -> None:
        """Bytes of a direction are missing."""
        self._responses[direction].lose()

    def claimed(self) -> int | None:
        """The direction on which something was like a request, when no more is known."""
        return next((direction for direction, claims in enumerate(self._claims) if claims), None)

    def of_responses_alone(self) -> int | None:
        """The client's direction when only the other has bytes, and they are Kafka's responses by all that can be told."""
        for direction, chain in enumerate(self._responses):
            if chain.plausible and self._responses[1 - direction].empty:
                return 1 - direction
        return None


class ResponseChain:
    """Follows the frames of a direction as if they were responses."""

    def __init__(self) -> None:
        self.empty = True
        self._broken = False
        self._frames = 0
        self._left = 0  # bytes of the frame that are still to come
        self._head = bytearray()  # its size and correlation id, as far as they came
        self._last: int | None = None  # correlation id

    @property
    def plausible(self) -> bool:
        """Whether what was read is responses: several, or one to its last byte."""
        return not self._broken and (self._frames > 1 or (self._frames == 1 and not self._left and not self._head))

    def read(self, data: bytes) -> None:
        """Take the next bytes."""
        self.empty = self.empty and not data
        at = 0
        while at < len(data) and not self._broken:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(8 - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                self._begin()
            at += step

    def _begin(self) -> None:
        """A frame begins when its size and correlation id are there."""
        if len(self._head) < 8:
            return
        size, correlation_id = (int.from_bytes(self._head[at : at + 4], "big", signed=True) for at in (0, 4))
        self._head.clear()
        near = self._last is None or 0 < abs(correlation_id - self._last) <= MOST_SKIPPED
        self._broken = not (SMALLEST_RESPONSE <= size <= LARGEST_FRAME and correlation_id >= 0 and near)
        self._frames += 1
        self._left = size - 4
        self._last = correlation_id

    def lose(self) -> None:
        """Bytes are missing: the next piece is taken to begin with a frame."""
        self._left = 0
        self._head.clear()
