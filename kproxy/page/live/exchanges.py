"""LiveExchanges: make exchanges of the analyzer's records: on arrival only what rows need, in full when one is opened."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from heapq import heappop, heappush
from threading import RLock

import msgspec
from msgspec import Struct

from kproxy.errors import DecodeError
from kproxy.output.bodies import Opener
from kproxy.output.exchange_line import read_bodies
from kproxy.output.jsonl import event_line
from kproxy.output.rewriting.rewriter import Rewriter, WithoutRecords
from kproxy.page import blocks
from kproxy.page.blocks import Item
from kproxy.page.recorded import item_of
from kproxy.pipeline.connections import new_cluster_view
from kproxy.protocol import (
    Message,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.proxy.page_records import Begun, Shown, Side, Topics
from kproxy.schemas.store import Schemas
from kproxy.schemas.viewer import make_viewers
from kproxy.session import ClusterView, Connection, Cut, Exchange, Frame
from kproxy.session.cluster import REQUESTS_WITH_NAMES, RESPONSES_WITH_NAMES, TopicNames

KNOWN = 1_024  # about how many bytes a connection takes


class ReportedError(DecodeError):
    """Why the analyzer could not read a frame."""

    def __str__(self) -> str:
        return self.reason


class Known(Struct):
    """A connection that is open, or has an exchange here."""

    connection: Connection
    view: ClusterView  # of its cluster
    last: int = 0  # number of its last exchange
    is_open: bool = True


class LiveExchanges:
    """Connections and clusters of a running proxy, with which its exchanges are read.

    Args:
        schemas: with which the contents of records are shown; None: they may not be shown (page.records).
    """

    def __init__(self, schemas: Schemas | None = None) -> None:
        self.connections: dict[int, Known] = {}
        self._over: list[tuple[int, int]] = []  # a heap of ended connections: last exchange, number
        self._views: dict[str, ClusterView] = {}
        self._opener = Opener(None if schemas is None else make_viewers(schemas))
        self._rewriter = WithoutRecords() if schemas is None else Rewriter()

    def begin(self, number: int, begun: Begun) -> Known:
        """Add a connection, or update what is known about it."""
        known = self.connections.get(number)
        if known is None:
            connection = Connection(number, begun.client, begun.broker, cluster=begun.cluster)
            known = self.connections[number] = Known(connection, self._view(begun.cluster))
        connection = known.connection
        connection.client_software_name = begun.software_name
        connection.client_software_version = begun.software_version
        connection.sasl_mechanism, connection.closed = begun.sasl_mechanism, begun.closed
        connection.user_name = begun.user_name
        connection.tls_to_proxy = begun.tls or connection.tls_to_proxy
        return known

    def end(self, number: int) -> None:
        """Note that a connection has ended; it is forgotten with its last exchange."""
        known = self.connections.get(number)
        if known is not None and known.is_open:
            known.is_open = False
            heappush(self._over, (known.last, number))

    def forget_before(self, first: int) -> None:
        """Forget the ended connections whose exchanges are all before this one."""
        while self._over and self._over[0][0] < first:
            _, number = heappop(self._over)
            known = self.connections[number]
            if known.last < first:
                del self.connections[number]
            else:  # more exchanges came after its end
                heappush(self._over, (known.last, number))

    @property
    def size(self) -> int:
        """About how many bytes the connections take."""
        return len(self.connections) * KNOWN

    def learn_topics(self, topics: Topics) -> None:
        view = self._view(topics.cluster)
        for topic_id, name in topics.names.items():
            view.learn_topic(topic_id, name)

    def learn(self, known: Known, exchange: Exchange) -> None:
        """Learn topic names, brokers and protocols of groups from an exchange."""
        if exchange.api_key in RESPONSES_WITH_NAMES and exchange.response is not None:
            known.view.note(exchange.response)
        elif exchange.api_key in REQUESTS_WITH_NAMES and exchange.request is not None:
            known.view.note(exchange.request)
        self._opener.learn(exchange)

    def exchange(self, known: Known, shown: Shown) -> Exchange:
        """Return the exchange without the headers of its frames."""
        key = shown.api_key
        of_request, of_response = (None, None) if key is None else (request_message(key), response_message(key))
        request = None if shown.request is None else _frame(shown.request, of_request)
        response = None if shown.response is None else _frame(shown.response, of_response)
        return Exchange(
            known.connection,
            shown.at,
            key,
            shown.api_version,
            shown.correlation_id,
            shown.client_id,
            request,
            response,
            shown.expects_response,
            shown.unanswered,
            shown.undecoded,
            TopicNames(known.view, request, response) if shown.named else {},
        )

    def item(self, known: Known, shown: Shown) -> Item:
        """Return the exchange in detail: its line in the decoded log, and both frames without withheld contents."""
        exchange = self.whole(known, shown)
        item = item_of(exchange, event_line(exchange, read_bodies(exchange, self._opener)), self._rewriter)
        return Item(item.line, _noted(item.request, shown.request), _noted(item.response, shown.response))

    def line(self, known: Known, shown: Shown, names: Iterable[str] = ()) -> bytes:
        """Return the line in the decoded log; without *embedded* in names, bytes and records fields are not decoded."""
        exchange = self.whole(known, shown)
        opener = self._opener if not names or "embedded" in names else _Closed()
        return event_line(exchange, read_bodies(exchange, opener))

    def whole(self, known: Known, shown: Shown) -> Exchange:
        """Return the exchange with the headers of its frames."""
        exchange = self.exchange(known, shown)
        key, version = exchange.api_key, exchange.api_version
        request, response = exchange.request, exchange.response
        with suppress(DecodeError):  # a frame may be cut within its header
            if request is not None:
                request.header = read_request_header(request.data)
        with suppress(DecodeError, KeyError):
            if response is not None and key is not None and version is not None:
                of = response_header_version(key, response.body_version if response.message is not None else version)
                response.header = read_response_header(response.data, of)
        return exchange

    def _view(self, cluster: str) -> ClusterView:
        view = self._views.get(cluster)
        if view is None:
            view = self._views[cluster] = new_cluster_view(SharedView)
        return view


class SharedView(ClusterView):
    """A ClusterView that several threads may use at once: each call holds its lock."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()

    def note(self, frame: Frame) -> None:
        with self._lock:
            super().note(frame)

    def topic_name(self, topic_id: str) -> str | None:
        with self._lock:
            return super().topic_name(topic_id)

    @property
    def topics(self) -> Mapping[str, str]:
        with self._lock:
            return dict(super().topics)

    @property
    def brokers(self) -> Mapping[int, str]:
        with self._lock:
            return dict(super().brokers)

    @property
    def cluster_id(self) -> str | None:
        with self._lock:
            return super().cluster_id

    def learn_topic(self, topic_id: str, name: str) -> None:
        with self._lock:
            super().learn_topic(topic_id, name)


class _Closed(Opener):
    """Opens nothing."""

    def open(self, exchange: Exchange) -> list[object]:  # type: ignore[override]
        return []


def _frame(side: Side, of: Message | None) -> Frame:
    frame = Frame(
        side.data, side.started_at, side.ended_at, None, side.body_start, of, side.body_version, sent_at=side.sent_at
    )
    unusual = side.unusual
    if unusual is not None:
        frame.message = of if unusual.is_read else None
        frame.layout, frame.assumed_version = unusual.layout, unusual.assumed_version
        frame.edits, frame.cut, frame.unread = unusual.edits, Cut(unusual.cut), unusual.unread
        frame.error = None if unusual.error is None else ReportedError(unusual.error)
        frame.size, frame.trailing = unusual.size, unusual.trailing
    return frame


def _noted(side: blocks.Side | None, received: Side | None) -> blocks.Side | None:
    """Return the side with the analyzer's note on what was withheld from it."""
    if side is None or received is None or received.unusual is None or not received.unusual.note:
        return side
    return msgspec.structs.replace(side, note=received.unusual.note)
