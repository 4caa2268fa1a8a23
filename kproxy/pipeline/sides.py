"""Find the client of a flow whose beginning, or whose other side, was not captured.

Clients write whole requests, so that pieces begin with them. But a response may read as a request, too: its zeros are an empty
client id and empty arrays, and now and then they fit to the last byte. Only a request with a client id therefore settles it
at once; another needs a response with its correlation id on the other side, or the end of the search.
"""

from kproxy.session import looks_like_request

CLAIMS = 64  # correlation ids remembered of each direction


class Sides:
    """Reads the pieces of both directions until one of them must be the client's."""

    def __init__(self) -> None:
        self._claims: tuple[set[int], set[int]] = (set(), set())

    def read(self, direction: int, data: bytes) -> int | None:
        """Read the next piece; give the client's direction once it is beyond doubt."""
        if looks_like_request(data):
            if int.from_bytes(data[12:14], "big", signed=True) > 0:  # the client id's size
                return direction
            if len(self._claims[direction]) < CLAIMS:
                self._claims[direction].add(int.from_bytes(data[8:12], "big"))
        answered = int.from_bytes(data[4:8], "big") in self._claims[1 - direction] and len(data) >= 8
        return 1 - direction if answered else None

    def claimed(self) -> int | None:
        """The direction of a piece that looked like a request, for when no more will be known."""
        return next((direction for direction, claims in enumerate(self._claims) if claims), None)
