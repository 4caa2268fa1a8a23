"""Decode live connections that are known to be Kafka: chunks of bytes in, events out. A failure stays in its connection.

A failure inside a Session, or while its events are written (an exception, no memory left, too long on one chunk), ends the
decoding of that connection and is counted; the others go on. flow_reader.py reads flows of captures, which may not be Kafka.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Protocol

from kproxy.capture import CloseReason
from kproxy.pipeline.output import SIDES, End
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import ClusterView, Connection, Event, Exchange, Limits, Session
from kproxy.session.endings import Cut
from kproxy.session.events import TlsFacts

MOST_CLUSTERS = 1_000
FAULT, LIMITS = "fault", "analyzer_limits"  # why requests are left out: labels of kproxy_exchanges_left_out


class Listener(Protocol):
    """What receives the events of connections, in their order."""

    taken: int  # events completely handled so far

    def receive_events(self, events: list[Event]) -> None:
        """Take the events of one connection."""

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        """Take the end of a connection, or of one side of it; *fault* where decoding it failed."""


class LiveConnection:
    """One live connection."""

    __slots__ = ("at", "held", "number", "opened_at", "reported", "session")

    def __init__(self, number: int, session: Session, opened_at: int) -> None:
        self.number = number
        self.session = session
        self.opened_at = opened_at  # ns
        self.at = opened_at  # ns: when its last chunk came
        self.reported = 0  # requests whose exchange was handed to the listener
        self.held = 0  # bytes that came since its last event: about what the session holds


def new_cluster_view(kind: type[ClusterView] = ClusterView) -> ClusterView:
    """Return a view of a cluster that knows the metadata topic only."""
    view = kind()
    view.learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)
    return view


class Clusters:
    """What connections have shown about each cluster, by the cluster's name in the configuration."""

    def __init__(self) -> None:
        self.views: OrderedDict[str, ClusterView] = OrderedDict()

    def view(self, name: str) -> ClusterView:
        """Return the view of one cluster, made at the first call; the oldest is dropped when there are too many."""
        known = self.views.get(name)
        if known is None:
            known = self.views[name] = new_cluster_view()
            if len(self.views) > MOST_CLUSTERS:
                self.views.popitem(last=False)
        return known


class Connections:
    """The connections of one live source. Calls for a connection that is not open are ignored.

    Args:
        clusters: shared by all sources of a run.
        listener: receives the events.
        limits: of each session.
        contain: the exceptions that end only the connection in which they are raised.
        most: connections open at a time; one more closes the connection that was silent longest.
        most_held: bytes held by all sessions together; more closes the connection that holds most.
        on_open: called with each new connection and the time (ns) it began.
    """

    def __init__(
        self,
        clusters: Clusters,
        listener: Listener,
        limits: Limits,
        *,
        contain: tuple[type[BaseException], ...],
        most: int,
        most_held: int,
        on_open: Callable[[Connection, int], None] = lambda connection, at: None,
    ) -> None:
        self._clusters = clusters
        self._listener = listener
        self._limits = limits
        self._contain = contain
        self._most = most
        self._most_held = most_held
        self._on_open = on_open
        self._open: OrderedDict[int, LiveConnection] = OrderedDict()  # the connection that was silent longest is first
        self._held = 0
        self.last_at = 0  # ns: time of the last chunk
        self.given_up = 0  # connections closed because of ``most`` or ``most_held``
        self.faults: dict[str, int] = {}  # connections that failed, by exception
        self._ended: dict[
            int, tuple[int, str]
        ] = {}  # connections that failed or were given up: requests reported, and why
        self.requests = 0  # requests whose exchanges were handed to the listener
        self.left_out: dict[
            str, int
        ] = {}  # requests whose exchanges were not, by reason; known when their connection closes

    def __len__(self) -> int:
        return len(self._open)

    def opened(self) -> Iterator[tuple[Connection, int]]:
        """Yield the open connections, each with the time (ns) at which it began."""
        for one in self._open.values():
            yield one.session.connection, one.opened_at

    def open(
        self,
        number: int,
        at: int,
        *,
        client: str,
        broker: str,
        cluster: str,
        from_start: bool,
        tls: TlsFacts | None = None,
    ) -> None:
        """Begin a connection.

        Args:
            from_start: whether its first bytes here are the first that were sent on it.
            tls: facts about the client's TLS connection to kproxy.
        """
        self.last_at = at
        self._ended.pop(number, None)
        known = self._open.get(number)
        if known is not None:
            self._close(known, at, CloseReason.REUSED)
        session = Session(
            number=number,
            client=client,
            broker=broker,
            cluster=self._clusters.view(cluster),
            limits=self._limits,
            from_start=from_start,
            is_kafka=True,
        )
        session.connection.cluster, session.connection.tls_to_proxy = cluster, tls
        self._open[number] = LiveConnection(number, session, at)
        self._on_open(session.connection, at)
        if len(self._open) > self._most:
            self._give_up(next(iter(self._open.values())))

    def receive(self, number: int, direction: int, data: bytes, at: int, sent_at: int = 0) -> None:
        """Receive the next bytes of a direction (Direction); *sent_at*: see Session.receive."""
        self.last_at = at
        connection = self._open.get(number)
        if connection is None:
            return
        try:
            self._open.move_to_end(number)
            connection.at = at
            receive = connection.session.receive
            events = receive(direction, data, at, sent_at) if sent_at else receive(direction, data, at)
            if events:
                self._held -= connection.held
                connection.held = 0
                self._hand_over(connection, events)
                return
        except self._contain as error:
            self.fail(number, error)
            return
        size = len(data)
        connection.held += size
        self._held += size
        if self._held > self._most_held:
            self._give_up(max(self._open.values(), key=lambda one: one.held))

    def note_sent(self, number: int, direction: int, sent_at: int) -> None:
        """Record when the latest requests were sent on; see Session.note_sent."""
        connection = self._open.get(number)
        if connection is not None:
            try:
                connection.session.note_sent(direction, sent_at)
            except self._contain as error:
                self.fail(number, error)

    def leave_out(self, number: int, direction: int, size: int, at: int, cut: Cut) -> None:
        """Skip the next *size* bytes of a direction: they will not arrive, for the reason *cut*."""
        self.last_at = at
        connection = self._open.get(number)
        if connection is not None:
            connection.at = at
            try:
                self._hand_over(connection, connection.session.gap(direction, size, at, cut))
            except self._contain as error:
                self.fail(number, error)

    def end(self, number: int, direction: int, at: int, *, reset: bool = False) -> None:
        """End a direction: its side sent FIN, or with *reset* an RST."""
        self.last_at = at
        connection = self._open.get(number)
        if connection is not None:
            try:
                self._hand_over(connection, connection.session.end(direction, at, direction if reset else None))
                self._listener.end_connection(End(number, at, SIDES[direction]), None)
            except self._contain as error:
                self.fail(number, error)

    def close(self, number: int, at: int, requests: int | None = None, *, ended: str | None = None) -> None:
        """Close a connection: report its unanswered requests as events.

        Args:
            requests: how many requests it carried. If it failed or was given up, those without an exchange are ``left_out``.
            ended: in words, who ended it; for connections without a FIN or RST.
        """
        self.last_at = at
        connection = self._open.get(number)
        if connection is not None:
            known = connection.session.connection
            known.closed = known.closed or ended
            self._close(connection, at, CloseReason.FINISHED)
            self._ended.setdefault(number, (connection.reported, FAULT))
        reported, why = self._ended.pop(number, (0, FAULT))
        if requests is not None and reported < requests:
            self.left_out[why] = self.left_out.get(why, 0) + requests - reported

    def close_all(self, at: int) -> None:
        """Close every connection: the source has ended."""
        while self._open:
            self._close(next(iter(self._open.values())), at, CloseReason.CAPTURE_END)

    def drop_all(self) -> None:
        """Drop every connection: the source lost an unknown number of bytes, so none can be decoded further."""
        while self._open:
            self._drop(next(iter(self._open.values())))
        self._ended.clear()

    def _hand_over(self, connection: LiveConnection, events: list[Event]) -> None:
        listener = self._listener
        before = listener.taken
        try:
            listener.receive_events(events)
        finally:
            requests = 0
            for event in events[: listener.taken - before]:
                if type(event) is Exchange and event.request is not None:
                    requests += 1
            connection.reported += requests
            self.requests += requests

    def fail(self, number: int, error: BaseException) -> None:
        """Stop decoding a connection, as its state can no longer be trusted, and count the *error*."""
        name = type(error).__name__
        self.faults[name] = self.faults.get(name, 0) + 1
        failed = self._forget(number)
        if failed is not None:
            self._ended[number] = failed.reported, FAULT
        self._listener.end_connection(End(number, self.last_at, reason=CloseReason.EVICTED), error)

    def _close(self, connection: LiveConnection, at: int, reason: CloseReason) -> None:
        self._forget(connection.number)
        try:
            self._hand_over(connection, connection.session.close(at))
        except self._contain as error:
            self._ended[connection.number] = connection.reported, FAULT
            self.fail(connection.number, error)
        else:
            self._listener.end_connection(End(connection.number, at, reason=reason), None)

    def _give_up(self, connection: LiveConnection) -> None:
        self.given_up += 1
        self._ended[connection.number] = connection.reported, LIMITS
        self._drop(connection)

    def _drop(self, connection: LiveConnection) -> None:
        """Drop a connection without reporting its requests in flight as unanswered: responses may still come."""
        self._forget(connection.number)
        self._listener.end_connection(End(connection.number, self.last_at, reason=CloseReason.EVICTED), None)

    def _forget(self, number: int) -> LiveConnection | None:
        connection = self._open.pop(number, None)
        if connection is not None:
            self._held -= connection.held
        return connection
