"""Sessions of the connections that a worker taps: records of its ring in, events out. No connection can harm another.

What goes wrong inside of a Session (an exception, no memory left, a second of CPU spent on one record) ends the analysis of that
connection and is counted; the others go on.
"""

import json
from collections import OrderedDict
from typing import Any, Protocol

from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.proxy.tap.tapped import TapItem, TapKind
from kproxy.session import ClusterView, Event, Limits, Session

MOST_CLUSTERS = 1_000
MOST_LOST = 1 << 48  # bytes, in one record: more than a connection carries
OPEN, DATA, LOST, END, CLOSE = TapKind

Key = tuple[int, int]  # ring, number of the connection


class Listener(Protocol):
    """Who is told what connections say."""

    def said(self, key: Key, events: list[Event]) -> None:
        """A connection said something."""

    def closed(self, key: Key, at: int, fault: BaseException | None) -> None:
        """There is no more of a connection; *fault* where its analysis failed."""


class Stuck(BaseException):
    """Raised inside of an analysis that took too long; no ``except Exception`` may hold it up."""


class Tapped:
    """One connection that is tapped."""

    __slots__ = ("at", "held", "key", "session")

    def __init__(self, key: Key, session: Session) -> None:
        self.key = key
        self.session = session
        self.at = 0  # ns: when it was heard of last
        self.held = 0  # bytes that came since the last event: about what the session holds


class Clusters:
    """What has been learned of each cluster, by its name in the configuration."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, ClusterView] = OrderedDict()

    def view(self, name: str) -> ClusterView:
        """That of one cluster; the one made first is forgotten when there are too many."""
        known = self._views.get(name)
        if known is None:
            known = self._views[name] = ClusterView()
            known.learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)
            if len(self._views) > MOST_CLUSTERS:
                self._views.popitem(last=False)
        return known


class TappedSessions:
    """The connections of one ring.

    Args:
        ring: number of the ring.
        clusters: shared by all rings.
        listener: is told what connections say, in order.
        limits: of each session.
        most: connections analysed at a time; beyond, the one not heard of for longest is given up.
        most_held: bytes held by all sessions together; beyond, the one that holds most is given up.
    """

    def __init__(
        self,
        ring: int,
        clusters: Clusters,
        listener: Listener,
        limits: Limits,
        *,
        most: int = 20_000,
        most_held: int = 268_435_456,
    ) -> None:
        self._ring = ring
        self._clusters = clusters
        self._listener = listener
        self._limits = limits
        self._most = most
        self._most_held = most_held
        self._open: OrderedDict[int, Tapped] = OrderedDict()
        self._held = 0
        self.taken = 0  # records
        self.last_at = 0  # ns: time of the record taken last
        self.lost_bytes = 0  # told by the tap
        self.given_up = 0  # for lack of room
        self.faults: dict[str, int] = {}  # analyses that failed, by exception

    def __len__(self) -> int:
        return len(self._open)

    def take(self, items: list[TapItem]) -> None:
        """Analyse records of the ring. Raises nothing for what is in them."""
        for kind, number, direction, at, data in items:
            self.taken += 1
            self.last_at = at
            tapped = self._open.get(number)
            try:
                if kind == DATA and tapped is not None:
                    self._receive(tapped, direction, at, data)
                else:
                    self._other(kind, number, direction, at, data, tapped)
            except (Exception, Stuck) as error:
                self._fault(number, error)

    def close(self, at: int) -> None:
        """Nothing more will come of any connection, or nobody knows what was missed."""
        while self._open:
            number, tapped = next(iter(self._open.items()))
            self._close(number, tapped, at)

    def close_silent(self, before: int) -> None:
        """Close connections that were last heard of before that time (ns): their end must have been dropped by the tap."""
        while self._open:
            number, tapped = next(iter(self._open.items()))
            if tapped.at >= before:
                return
            self._close(number, tapped, self.last_at)

    def _receive(self, tapped: Tapped, direction: int, at: int, data: bytes) -> None:
        self._open.move_to_end(tapped.key[1])
        tapped.at = at
        events = tapped.session.receive(direction, data, at)
        if events:
            self._held -= tapped.held
            tapped.held = 0
            self._listener.said(tapped.key, events)
            return
        size = len(data)
        tapped.held += size
        self._held += size
        if self._held > self._most_held:
            self._give_up(max(self._open.values(), key=lambda one: one.held))

    def _other(self, kind: int, number: int, direction: int, at: int, data: bytes, tapped: Tapped | None) -> None:
        if kind == OPEN:
            if tapped is not None:
                self._close(number, tapped, at)
            self._begin(number, at, data)
            return
        lost = min(int.from_bytes(data[:8], "little"), MOST_LOST) if kind == LOST else 0
        self.lost_bytes += lost
        if tapped is None:
            return  # given up, or told as lost
        if kind == LOST:
            self._listener.said(tapped.key, tapped.session.gap(direction, lost, at))
        elif kind == END:
            self._listener.said(tapped.key, tapped.session.end(direction, at))
        elif kind == CLOSE:
            self._close(number, tapped, at)

    def _begin(self, number: int, at: int, data: bytes) -> None:
        """Raises ValueError or KeyError for an OPEN that says nothing."""
        told: dict[str, Any] = json.loads(data)
        session = Session(
            number=number,
            client=str(told["client"]),
            broker=str(told["broker"]),
            cluster=self._clusters.view(str(told["cluster"])),
            limits=self._limits,
            from_start=bool(told["from_start"]),
            is_kafka=True,
        )
        tapped = self._open[number] = Tapped((self._ring, number), session)
        tapped.at = at
        if len(self._open) > self._most:
            self._give_up(next(iter(self._open.values())))

    def _close(self, number: int, tapped: Tapped, at: int) -> None:
        self._forget(number)
        try:
            self._listener.said(tapped.key, tapped.session.close(at))
        except (Exception, Stuck) as error:
            self._fault(number, error)
        else:
            self._listener.closed(tapped.key, at, None)

    def _give_up(self, tapped: Tapped) -> None:
        self.given_up += 1
        self._close(tapped.key[1], tapped, self.last_at)

    def _forget(self, number: int) -> None:
        tapped = self._open.pop(number, None)
        if tapped is not None:
            self._held -= tapped.held

    def _fault(self, number: int, error: BaseException) -> None:
        name = type(error).__name__
        self.faults[name] = self.faults.get(name, 0) + 1
        self._forget(number)
        self._listener.closed((self._ring, number), self.last_at, error)
