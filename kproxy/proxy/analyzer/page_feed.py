"""Exchanges for the live page: PageFeed sends them over a socket; Past keeps the latest for a page that connects later.

The analyzer never waits: what the page cannot take is left out.

Exchanges are left out evenly, by chance: while bytes wait for the page, a smaller share of them is sent; after a while without
waiting bytes, a larger share. While the rings are filling up, none are sent. Rare exchanges, which analyses need one and all
(``is_rare``), are sent all the same, up to a rate. What is left out is counted (Tally). Records about connections are never
left out: if the page takes nothing until MOST_HELD bytes wait, the feed is closed and another one follows it.
"""

import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import random
from typing import TYPE_CHECKING, NamedTuple

from kproxy.errors import DecodeError
from kproxy.output.bodies import Bodies
from kproxy.output.rewriting.rewriter import Rewriter, api_has_secrets
from kproxy.pipeline.output import End, Output, Source
from kproxy.protocol import ApiKey
from kproxy.protocol.facts import facts
from kproxy.proxy.analyzer.past import ALWAYS, PastEvents
from kproxy.proxy.page_records import SIZE, Begun, Ended, Record, Seen, Shown, Side, Tally, Topics, Unusual, encode
from kproxy.session import ClusterView, Connection, Event, Exchange, Frame, Gap, NotKafka
from kproxy.session.cluster import REQUESTS_WITH_NAMES, RESPONSES_WITH_NAMES

if TYPE_CHECKING:
    from kproxy.pipeline.connections import Connections

SEND = 256 << 10  # bytes of a call of send(2)
PIECE_RECORDS, PIECE_BYTES = 256, 64 << 10
MANY_WAITING = 8 << 20  # bytes, from which on a smaller share is sent
MOST_WAITING = 24 << 20  # bytes, from which on no exchange is
MOST_HELD = 4 * MOST_WAITING  # bytes, from which on the feed ends
LEAST_SHARE = 1 / 1024
SMALLER, LARGER = 0.6, 1.25
SMALLER_AFTER_S, LARGER_AFTER_S = 0.2, 1.0  # since the share was changed last
NAMES_AFTER_S = 30.0  # between two lists of names of topics
WITH_NAMES = REQUESTS_WITH_NAMES | RESPONSES_WITH_NAMES


class _Count(NamedTuple):
    """The numbers of a Tally."""

    seen: int
    dropped: int
    missed: int


class PageFeed(Output):
    """The analyzer's end.

    Args:
        connected: a stream socket to the page, owned from here on.
        clusters: returns what the connections have shown of each cluster, by its name.
        missed: returns how many exchanges the analyzer could not read so far.
        has_failed: returns whether the exchange that is written now has an error.
        before: the closed feed to the same page that this one follows.
        clock: the time in seconds.
    """

    def __init__(
        self,
        connected: socket.socket,
        clusters: Callable[[], Mapping[str, ClusterView]] = dict,
        missed: Callable[[], int] = lambda: 0,
        has_failed: Callable[[], bool] = lambda: False,
        before: "PageFeed | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        connected.setblocking(False)
        self._socket: socket.socket | None = connected
        self._clusters = clusters
        self._missed = missed
        self._clock = clock
        self._missed_before = missed()
        self._rewriter = Rewriter()
        self._secret = frozenset(key for key in facts().apis if api_has_secrets(key))
        self._records: list[Record] = []
        self._size = 0  # bytes of the frames in _records
        self._waiting = bytearray()
        self._has_failed = has_failed
        self._rare = RareExchanges(clock)
        self._sent = 0  # bytes
        self._pieces: deque[tuple[int, _Count]] = deque()  # waiting; _sent at the end of each, and the counts
        self._delivered = _Count(0, 0, 0)  # in the pieces that were sent to their end
        self._connections = 0
        self._of_sources: dict[int, dict[int, Begun]] = {}
        self._known: dict[int, Begun] = {}  # by the connections of the current source: what the page knows
        self._share_changed_at = self._names_sent_at = clock()
        self._names_due = False
        self._last_tally: tuple[int, int, int, float] | None = None
        self._at = 0  # ns, of the newest exchange
        self.is_busy = False  # whether the analyzer has no time for the page
        self.is_too_slow = False  # whether it ended because the page took too little
        self.share = 1.0
        # exchanges that the previous feed did not deliver are lost: they are only in these counts
        self.carried: int = 0 if before is None else before.seen - before._delivered.seen
        self.seen: int = self.carried
        self.dropped: int = self.carried
        if before is not None:
            self._missed_before = before._missed_before + before._delivered.missed
            self._at = before._at
        self._send_names()

    @property
    def has_ended(self) -> bool:
        """Whether the feed is closed, by either end."""
        return self._socket is None

    @property
    def waiting(self) -> int:
        """Bytes that the page has not taken yet."""
        return len(self._waiting)

    # Output

    def start_source(self, source: Source) -> None:
        self._known = self._of_sources.setdefault(source.number, {})

    def begin(self, connection: Connection, at: int) -> None:
        self._announce(connection, at)

    def begin_all(self, source: Source, connections: "Connections") -> None:
        """Announce the connections that are open already."""
        self.start_source(source)
        for connection, at in connections.opened():
            self._announce(connection, at)

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if type(event) is not Exchange:
            if self._socket is not None:
                self._note(event)
            return
        self.seen += 1
        self._at = event.at
        if self._is_left_out(event):
            self.dropped += 1
            self._names_due |= event.api_key in WITH_NAMES
            return
        self._records.append(self._shown(event))
        if len(self._records) >= PIECE_RECORDS or self._size >= PIECE_BYTES:
            self._end_piece()
            self._send()
            self._adapt()

    def end(self, end: End) -> None:
        known = self._known.get(end.connection)
        if known is not None:
            self._records.append(Ended(known.connection, end.at, end.side, end.reason))
            if end.side is None:
                del self._known[end.connection]

    def flush(self) -> None:
        """Send what the socket takes now."""
        if self._names_due and self._clock() - self._names_sent_at >= NAMES_AFTER_S:
            self._send_names()
        self._end_piece()
        self._send()
        self._adapt()

    def close(self, error: BaseException | None = None) -> None:
        """Close the feed; what waits is not sent, and counts as left out."""
        ended, self._socket = self._socket, None
        delivered = self._delivered
        self.dropped = self.seen - (delivered.seen - delivered.dropped)
        self._pieces.clear()
        self._waiting.clear()
        self._records.clear()
        if ended is not None:
            with suppress(OSError):
                ended.close()

    def _is_left_out(self, exchange: Exchange) -> bool:
        """Return whether an exchange is left out, as the page or the analyzer is too slow."""
        if self._socket is None or len(self._waiting) > MOST_WAITING:
            return True
        if self.share >= 1.0 and not self.is_busy:
            return False
        if (self._has_failed() or is_rare(exchange)) and self._rare.may_go():
            return False
        return self.is_busy or random() >= self.share

    # Records

    def _shown(self, exchange: Exchange) -> Shown:
        """Return the record of an exchange, with credentials withheld."""
        connection = exchange.connection
        known = self._known.get(connection.number)
        if (
            known is None
            or known.software_name is not connection.client_software_name
            or known.sasl_mechanism is not connection.sasl_mechanism
            or known.user_name is not connection.user_name
            or known.closed is not connection.closed
        ):
            known = self._announce(connection, exchange.at)
        request, response = exchange.request, exchange.response
        notes = "", ""
        if self._may_hold_secrets(exchange.api_key, request) or self._may_hold_secrets(exchange.api_key, response):
            done = self._rewriter.exchange(exchange)
            request, response = done.exchange.request, done.exchange.response
            notes = done.request_note, done.response_note
        self._size += (0 if request is None else len(request.data)) + (0 if response is None else len(response.data))
        return Shown(
            known.connection,
            exchange.at,
            exchange.api_key,
            exchange.api_version,
            exchange.correlation_id,
            exchange.client_id,
            None if request is None else _side(request, notes[0]),
            None if response is None else _side(response, notes[1]),
            type(exchange.topic_names) is not dict,
            exchange.expects_response,
            exchange.unanswered,
            exchange.undecoded,
        )

    def _may_hold_secrets(self, api_key: int | None, frame: Frame | None) -> bool:
        """Return whether a frame may hold credentials: in its fields, in its records, or because it cannot be read."""
        if frame is None:
            return False
        if frame.message is None or api_key is None:
            return True
        return api_key in self._secret and self._rewriter.wants(frame)

    def _announce(self, connection: Connection, at: int) -> Begun:
        """Add a record about a connection; return it, as what the page knows of the connection from now on."""
        known = self._known.get(connection.number)
        self._connections += known is None
        begun = Begun(
            self._connections if known is None else known.connection,
            at,
            connection.client,
            connection.broker,
            connection.cluster,
            connection.client_software_name,
            connection.client_software_version,
            connection.sasl_mechanism,
            connection.closed,
            connection.user_name,
            connection.tls_to_proxy,
        )
        self._known[connection.number] = begun
        self._records.append(begun)
        return begun

    def _note(self, event: Event) -> None:
        known = self._known.get(event.connection.number) or self._announce(event.connection, event.at)
        kind, number, at = type(event).__name__, known.connection, event.at
        if isinstance(event, Gap):
            self._records.append(Seen(number, at, kind, event.size, event.skipped))
        else:
            self._records.append(Seen(number, at, kind, foreign=event.kind if isinstance(event, NotKafka) else ""))

    def _send_names(self) -> None:
        self._names_due, self._names_sent_at = False, self._clock()
        for name, view in self._clusters().items():
            self._records.append(Topics(name, dict(view.topics)))

    # Pieces

    def _end_piece(self) -> None:
        """Encode the waiting records with a Tally as a piece to send; close the feed if the page has taken too little."""
        tally = self.seen, self.dropped, self._missed() - self._missed_before, self.share
        if tally == self._last_tally and not self._records:
            return
        self._last_tally = tally
        self._records.append(Tally(*tally, self._at))
        if self._socket is not None:
            piece = encode(self._records)
            self._waiting += len(piece).to_bytes(SIZE, "big")
            self._waiting += piece
            self._pieces.append((self._sent + len(self._waiting), _Count(*tally[:3])))
        self._records, self._size = [], 0
        if len(self._waiting) > MOST_HELD:
            self.is_too_slow = True
            self.close()

    def _send(self) -> None:
        """Send what the socket takes now, and note which pieces were delivered."""
        while self._waiting and self._socket is not None:
            try:
                sent = self._socket.send(memoryview(self._waiting)[:SEND])
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            del self._waiting[:sent]
            self._sent += sent
            while self._pieces and self._pieces[0][0] <= self._sent:
                _, self._delivered = self._pieces.popleft()

    def _adapt(self) -> None:
        """Adapt the share of exchanges that is sent."""
        now = self._clock()
        since = now - self._share_changed_at
        if self.is_busy or len(self._waiting) > MANY_WAITING:
            if since >= SMALLER_AFTER_S:
                self.share, self._share_changed_at = max(self.share * SMALLER, LEAST_SHARE), now
        elif not self._waiting and self.share < 1.0 and since >= LARGER_AFTER_S:
            self.share, self._share_changed_at = min(self.share * LARGER, 1.0), now


def _side(frame: Frame, note: str) -> Side:
    unusual = None
    if (
        note
        or frame.message is None
        or frame.cut
        or frame.trailing
        or frame.unread
        or frame.error is not None
        or frame.layout is not None
        or frame.assumed_version is not None
        or frame.edits is not None
    ):
        unusual = Unusual(
            frame.message is not None,
            frame.layout,
            frame.assumed_version,
            None if frame.error is None else str(frame.error),
            int(frame.cut),
            frame.unread,
            frame.size,
            frame.trailing,
            note,
            frame.edits,
        )
    return Side(
        frame.data, frame.started_at, frame.ended_at, frame.sent_at, frame.body_start, frame.body_version, unusual
    )


def connect(
    path: str,
    clusters: Callable[[], Mapping[str, ClusterView]],
    missed: Callable[[], int],
    has_failed: Callable[[], bool] = lambda: False,
    before: PageFeed | None = None,
) -> PageFeed:
    """Connect to a page that listens at a path; the other arguments are those of PageFeed. Raises OSError."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return PageFeed(made, clusters, missed, has_failed, before)


class Past(PastEvents, Output):
    """The last exchanges and ends of connections, as an output; see PastEvents."""

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None: ...


PER_SECOND = 500.0  # sent beyond the share; in a storm the rest is sampled, as all other exchanges are
AT_ONCE = 2_000.0  # after a quiet time: the members of a large group join at once
# of KIP-848, KIP-932, KIP-1071: most say only that a member is there
HEARTBEATS = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
CHANGES_OF_REQUEST = ("topic_partitions", "active_tasks")  # what the member has now; null if unchanged
CHANGES_OF_RESPONSE = ("assignment", "active_tasks")  # what the member is to have; null if unchanged


def is_rare(exchange: Exchange) -> bool:
    """Return whether analyses need this exchange, whatever else is left out."""
    key = exchange.api_key
    return key in ALWAYS or (key in HEARTBEATS and _changes_group(exchange))


def _changes_group(exchange: Exchange) -> bool:
    """Return whether a heartbeat joins, leaves, or brings another assignment."""
    try:
        request, response = exchange.request_body(), exchange.response_body()
    except DecodeError:
        return False
    if request is None or response is None:
        return True  # not answered, or not read
    changes = [getattr(request, name, None) for name in CHANGES_OF_REQUEST]
    changes += [getattr(response, name, None) for name in CHANGES_OF_RESPONSE]
    is_same_epoch = 0 < request.member_epoch == response.member_epoch
    return not is_same_epoch or any(change is not None for change in changes)


class RareExchanges:
    """Limits the rate of rare exchanges that are sent beyond the share.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = AT_ONCE
        self._at = clock()

    def may_go(self) -> bool:
        """Return whether another one may be sent now, and count it."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * PER_SECOND, AT_ONCE)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
