"""Requests that are not answered yet, in order, and SASL tokens among them. Bounded by count and bytes."""

from collections import deque
from collections.abc import Iterator

from kproxy.session.events import Exchange, Frame
from kproxy.session.limits import Limits
from kproxy.session.routes import Route

Entry = tuple[Exchange | None, Route | None]  # without an exchange: a token; without a route: an API nobody knows
TOKEN: Entry

class InFlight:
    """A queue of entries; responses come in request order, so its head is what the next response belongs to."""

    def __init__(self, limits: Limits) -> None: ...
    @property
    def queue(self) -> deque[Entry]: ...
    def add(self, exchange: Exchange, route: Route | None, size: int) -> bool:
        """Take a request whose frame holds *size* bytes; say whether there is now more than the limits allow."""

    def add_token(self) -> bool:
        """Take a token, which the other side will answer with one; the result is as ``add``'s."""

    @property
    def overfull(self) -> bool:
        """Whether the oldest must go; one alone may always stay."""

    def take(self) -> Entry:
        """The head, removed. Raises IndexError when there is none."""

    def drop_tokens(self) -> None:
        """Forget the tokens: authentication is over."""

    def skips_tokens(self, frame: Frame) -> bool:
        """Whether a response has the correlation id of the first request, though tokens that are not answered come before."""

    def sought(self) -> Iterator[tuple[int, Route]]:
        """Correlation ids and routes of the requests whose responses can be recognised, oldest first."""

    def find(self, frame: Frame) -> int | None:
        """How many entries come before the request that *frame* answers; its header is then read. None: no request."""

def correlation_id_of(response: bytes) -> int | None:
    """The correlation id alone, of a response whose header may be damaged or cut short behind it."""
