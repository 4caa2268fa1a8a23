"""Session: one connection as a conversation. Pairs requests with responses and reports what happens as events."""

from kproxy.session.cluster import ClusterView
from kproxy.session.events import Connection
from kproxy.session.exchanges import Event
from kproxy.session.limits import Limits

class Session:
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
    def receive(self, direction: int, data: bytes, at: int, sent_at: int = 0) -> list[Event]: ...
    def note_sent(self, direction: int, sent_at: int) -> None: ...
    def gap(self, direction: int, size: int | None, at: int, cut: int = ...) -> list[Event]: ...
    def end(self, direction: int, at: int, reset_by: int | None = None) -> list[Event]: ...
    def close(self, at: int, ended: str | None = None) -> list[Event]: ...
