"""Session: one connection as a conversation. Pairs requests with responses and says what happens as events."""

from kproxy.session.cluster import ClusterView
from kproxy.session.events import Connection
from kproxy.session.exchanges import Event
from kproxy.session.limits import Limits

BROKER_CLOSED: str
CONNECTION_CLOSED: str
CAPTURE_ENDED: str

class Session:
    """One connection. Bytes with their times go in, events come out; never raises for what the bytes say.

    Args:
        number: of the connection, as the events shall carry it.
        client, broker: addresses as "address:port".
        cluster: what is shared with the other connections to the same cluster; one of its own when not given.
        limits: what the connection may take.
        from_start: whether the first byte given of each direction is the first of the connection, for both or as
            (requests, responses). A direction of which it is not begins at the first plausible frame.
        is_kafka: whether that is known, so that a first request nobody can read is still one.
    """

    def __init__(
        self,
        *,
        number: int,
        client: str,
        broker: str,
        cluster: ClusterView | None = None,
        limits: Limits | None = None,
        from_start: bool | tuple[bool, bool] = True,
        is_kafka: bool = False,
    ) -> None: ...
    @property
    def connection(self) -> Connection: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def limits(self) -> Limits: ...
    def receive(self, direction: int, data: bytes, at: int) -> list[Event]:
        """Take bytes as they came, in order; *at* in ns since the epoch."""

    def gap(self, direction: int, size: int | None, at: int) -> list[Event]:
        """Learn that bytes are missing; *size* None when nobody knows how many."""

    def end(self, direction: int, at: int) -> list[Event]:
        """Learn that one side said it is done (FIN): after the broker's, nothing is answered any more."""

    def close(self, at: int) -> list[Event]:
        """Learn that nothing more will come: what is unanswered is told now."""
