# cython: language_level=3, auto_pickle=False
"""Decode live connections that are known to be Kafka: chunks of bytes in, events out. A failure stays in its connection.

A failure inside a Session, or while its events are written (an exception, no memory left, too long on one chunk), ends the
decoding of that connection and is counted; the others go on. flow_reader.py reads flows of captures, which may not be Kafka.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Protocol

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange

from kproxy.capture import CloseReason
from kproxy.pipeline.output import SIDES, End
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import ClusterView, Connection, Event, Limits, Session
from kproxy.session.endings import Cut
from kproxy.session.events import TlsFacts

MOST_CLUSTERS: int = 1_000
# Why requests are left out: labels of kproxy_exchanges_left_out
FAULT: str = "fault"
LIMITS: str = "analyzer_limits"


class Listener(Protocol):
    """What receives the events of connections, in their order."""

    taken: int  # events completely handled so far

    def receive_events(self, events: list[Event]) -> None:
        """Take the events of one connection."""

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        """Take the end of a connection, or of one side of it; *fault* where decoding it failed."""


cdef class LiveConnection:
    """One live connection."""


def _ignore(connection: Connection, at: int) -> None:
    pass


def _held_by(LiveConnection connection) -> int:
    return connection.held


def new_cluster_view(kind: type[ClusterView] = ClusterView) -> ClusterView:
    """Return a view of a cluster that knows the metadata topic only."""
    view = kind()
    view.learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)
    return view


cdef class Clusters:
    """What connections have shown about each cluster, by the cluster's name in the configuration."""

    def __init__(self):
        self.views = OrderedDict()

    def view(self, name: str) -> ClusterView:
        """Return the view of one cluster, made at the first call; the oldest is dropped when there are too many."""
        known = self.views.get(name)
        if known is None:
            known = self.views[name] = new_cluster_view()
            if len(self.views) > MOST_CLUSTERS:
                self.views.popitem(last=False)
        return known


cdef class Connections:
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
        int64_t most,
        int64_t most_held,
        on_open: Callable[[Connection, int], None] = _ignore,
    ) -> None:
        self._clusters = clusters
        self._listener = listener
        self._limits = limits
        self._contain = contain
        self._most = most
        self._most_held = most_held
        self._on_open = on_open
        self._open = OrderedDict()
        self._ended = {}
        self.faults = {}
        self.left_out = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self) -> Iterator[tuple[Connection, int]]:
        """Yield the open connections, each with the time (ns) at which it began."""
        for one in self._open.values():
            yield (<LiveConnection>one).session.connection, (<LiveConnection>one).opened_at

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
        login: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Begin a connection.

        Args:
            from_start: whether its first bytes here are the first that were sent on it.
            tls: facts about the client's TLS connection to kproxy.
            login: name of a client that has logged in to kproxy, and the SASL mechanism.
        """
        self.last_at = at
        cdef LiveConnection made
        self._ended.pop(number, None)
        cdef LiveConnection known = self._open.get(number)
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
        session.connection.user_name, session.connection.sasl_mechanism = login
        made = LiveConnection.__new__(LiveConnection)
        made.number, made.session, made.opened_at = number, session, at
        self._open[number] = made
        self._on_open(session.connection, at)
        if len(self._open) > self._most:
            self._give_up(next(iter(self._open.values())))

    cpdef int receive(self, number: int, int direction, bytes data, int64_t at, int64_t sent_at=0) except -1:  # type: (...) -> None
        """Receive the next bytes of a direction (Direction); *sent_at*: see Session.receive."""
        cdef LiveConnection connection = self._open.get(number)
        cdef Py_ssize_t size
        cdef list events
        self.last_at = at
        if connection is None:
            return 0
        try:
            self._open.move_to_end(number)
            events = connection.session.receive(direction, data, at, sent_at)
            if events:
                self._held -= connection.held
                connection.held = 0
                self._hand_over(connection, events)
                return 0
        except self._contain as error:
            self.fail(number, error)
            return 0
        size = len(data)
        connection.held += size
        self._held += size
        if self._held > self._most_held:
            self._give_up(max(self._open.values(), key=_held_by))
        return 0

    def note_sent(self, number: int, direction: int, sent_at: int) -> None:
        """Record when the latest requests were sent on; see Session.note_sent."""
        cdef LiveConnection connection = self._open.get(number)
        if connection is not None:
            try:
                connection.session.note_sent(direction, sent_at)
            except self._contain as error:
                self.fail(number, error)

    def note_edit(self, number: int, direction: int, edit: str) -> None:
        """Note in words what the proxy does to the message that ends next in a direction."""
        cdef LiveConnection connection = self._open.get(number)
        if connection is not None:
            connection.session.note_edit(direction, edit)

    def leave_out(self, number: int, direction: int, size: int, at: int, cut: Cut) -> None:
        """Skip the next *size* bytes of a direction: they will not arrive, for the reason *cut*."""
        self.last_at = at
        cdef LiveConnection connection = self._open.get(number)
        if connection is not None:
            try:
                self._hand_over(connection, connection.session.gap(direction, size, at, cut))
            except self._contain as error:
                self.fail(number, error)

    def end(self, number: int, direction: int, at: int, *, reset: bool = False) -> None:
        """End a direction: its side sent FIN, or with *reset* an RST."""
        self.last_at = at
        cdef LiveConnection connection = self._open.get(number)
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
        cdef LiveConnection connection = self._open.get(number)
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

    cdef int _hand_over(self, LiveConnection connection, list events) except -1:
        cdef int64_t before = self._listener.taken
        cdef int64_t requests = 0
        try:
            self._listener.receive_events(events)
        finally:
            for event in events[: self._listener.taken - before]:
                if type(event) is Exchange and (<Exchange>event).request is not None:
                    requests += 1
            connection.reported += requests
            self.requests += requests
        return 0

    def fail(self, number: int, error: BaseException) -> None:
        """Stop decoding a connection, as its state can no longer be trusted, and count the *error*."""
        name = type(error).__name__
        self.faults[name] = self.faults.get(name, 0) + 1
        cdef LiveConnection failed = self._forget(number)
        if failed is not None:
            self._ended[number] = failed.reported, FAULT
        self._listener.end_connection(End(number, self.last_at, reason=CloseReason.EVICTED), error)

    def _close(self, LiveConnection connection, int64_t at, reason: CloseReason) -> None:
        self._forget(connection.number)
        try:
            self._hand_over(connection, connection.session.close(at))
        except self._contain as error:
            self._ended[connection.number] = connection.reported, FAULT
            self.fail(connection.number, error)
        else:
            self._listener.end_connection(End(connection.number, at, reason=reason), None)

    def _give_up(self, LiveConnection connection) -> None:
        self.given_up += 1
        self._ended[connection.number] = connection.reported, LIMITS
        self._drop(connection)

    def _drop(self, LiveConnection connection) -> None:
        """Drop a connection without reporting its requests in flight as unanswered: responses may still come."""
        self._forget(connection.number)
        self._listener.end_connection(End(connection.number, self.last_at, reason=CloseReason.EVICTED), None)

    cdef LiveConnection _forget(self, number):
        cdef LiveConnection connection = self._open.pop(number, None)
        if connection is not None:
            self._held -= connection.held
        return connection
