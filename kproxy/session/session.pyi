"""Session: one connection as a conversation. Pairs requests with responses and reports what happens as events."""

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
        number: of the connection, for its events.
        client, broker: addresses as "address:port".
        cluster: shared with the other connections to the same cluster; by default the session has its own.
        limits: what the connection may use.
        from_start: whether the bytes begin with the connection, for both directions or as (requests, responses);
            otherwise the session looks for the first plausible frame.
        is_kafka: whether that is known, so that an unreadable first request still counts as a request.
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
        """Receive bytes of a direction, in order; *at* in ns since the epoch."""

    def gap(self, direction: int, size: int | None, at: int) -> list[Event]:
        """Learn that bytes are missing; *size* None: an unknown number."""

    def end(self, direction: int, at: int) -> list[Event]:
        """Learn that one side sent FIN: after the broker's, nothing is answered any more."""

    def close(self, at: int) -> list[Event]:
        """Learn that nothing more will arrive: report what is unanswered."""
