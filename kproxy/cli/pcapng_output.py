"""``--format pcapng``: exchanges as a capture that Wireshark reads: decrypted, in order, with a comment on each frame.

Packets stand in the order of their times, so nothing is written before all is read. A frame whose first and last byte came at
different times is in two packets or more. Connections that are not Kafka are left out.
"""

from dataclasses import dataclass, replace
from struct import Struct

from kproxy import __version__
from kproxy.cli.sink import Sink
from kproxy.cli.time_order import TimeOrder
from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.pcapng import file_header, packet
from kproxy.output.rewriting import Rewriter
from kproxy.output.synthetic_tcp import SEGMENT, SyntheticTcp
from kproxy.output.text import TextLines
from kproxy.session import BadFrame, Connection, Direction, Event, Exchange, Frame, Gap, SaslToken
from kproxy.session.session import BROKER_CLOSED, CONNECTION_CLOSED

DIRECTIONS = {Direction.REQUEST: 0, Direction.RESPONSE: 1}
BOTH = (0, 1)
ENDINGS = {CONNECTION_CLOSED: (0,), BROKER_CLOSED: (1, 0)}  # who said what, as far as unanswered requests tell
SIZE_FIELD = 4
TOKEN = b"\x60"  # RFC 2743: what GSSAPI's tokens begin with, and no request of Kafka's does
SMALLEST_HOLE = 1  # bytes: where nobody knows how many are missing

MOST_UINT32 = 0xFFFFFFFF

_KEY = Struct(">QBQQIQ")  # a place, and how many came before
_ITEM = Struct(">QQBII")  # time, connection, direction, size of the hole behind the bytes, size of the comment


@dataclass(slots=True)
class _Open:
    """A connection of which there is more to write."""

    connection: Connection
    items: int = 0
    farewell: tuple[int, ...] = BOTH  # the sides that say that they are done
    tcp: SyntheticTcp | None = None


class PcapngOutput:
    """Takes events; writes them all to *sink* when they are finished.

    Args:
        sink: gets the file.
        order: keeps the packets until then.
        rewriter: withholds credentials, or anonymizes.
    """

    def __init__(self, sink: Sink, order: TimeOrder, rewriter: Rewriter) -> None:
        self._sink = sink
        self._order = order
        self._rewriter = rewriter
        self._lines = TextLines()
        self._connections: dict[int, _Open] = {}
        self._count = 0

    def take(self, event: Event, _bodies: Bodies | None) -> None:
        """Keep the frames of an exchange, or what stands for frames that are not there."""
        if isinstance(event, Exchange):
            self._exchange(event)
        elif isinstance(event, SaslToken):
            self._token(event)
        elif isinstance(event, Gap | BadFrame):
            self._hole(event)

    def finish(self) -> None:
        """Write the file."""
        self._sink.write(file_header(f"kproxy {__version__}"))
        for item in self._order:
            self._write(item)

    def _exchange(self, event: Exchange) -> None:
        done = self._rewriter.exchange(event)
        exchange = done.exchange
        bodies = read_bodies(exchange)
        if exchange.request is not None:
            alone = Bodies(bodies.request, undecoded=bodies.undecoded if bodies.request is None else None)
            line = self._comment(replace(exchange, response=None), alone, done.request_note)
            self._frame(event, exchange.request, 0, line)
        if exchange.response is not None:
            self._frame(event, exchange.response, 1, self._comment(exchange, bodies, done.response_note))
        if exchange.unanswered is not None:
            self._of(event).farewell = ENDINGS.get(exchange.unanswered, ())

    def _comment(self, exchange: Exchange, bodies: Bodies, note: str) -> str:
        line = " ".join(self._lines.render(exchange, bodies).split())
        return f"{line} [{note}]" if note else line

    def _frame(self, event: Exchange, frame: Frame, direction: int, comment: str) -> None:
        promised = len(frame.data) + (SMALLEST_HOLE if frame.cut else 0)
        data = promised.to_bytes(SIZE_FIELD, "big") + frame.data
        correlation_id = 0 if direction or event.correlation_id is None else event.correlation_id & MOST_UINT32
        place = _Place(frame.ended_at, direction, frame.started_at, frame.ended_at, correlation_id)
        if frame.cut:
            self._add(event, replace(place, at=frame.started_at), data, comment, SMALLEST_HOLE)
        elif frame.started_at == frame.ended_at:
            self._add(event, place, data, comment)
        else:
            first = min(SEGMENT, len(data) // 2)
            self._add(event, replace(place, at=frame.started_at), data[:first])
            self._add(event, place, data[first:], comment)

    def _token(self, event: SaslToken) -> None:
        data = event.size.to_bytes(SIZE_FIELD, "big") + TOKEN * event.size
        line = self._lines.render(replace(event, connection=self._of(event).connection, parts=None))
        place = _Place(event.at, DIRECTIONS[event.direction], event.at, event.at)
        self._add(event, place, data, " ".join(line.split()))

    def _hole(self, event: Gap | BadFrame) -> None:
        size = SMALLEST_HOLE
        if isinstance(event, Gap):
            size = max(size, min((event.size or 0) + event.skipped, MOST_UINT32))
        self._add(event, _Place(event.at, DIRECTIONS[event.direction]), hole=size)

    def _add(self, event: Event, place: "_Place", data: bytes = b"", comment: str = "", hole: int = 0) -> None:
        self._of(event).items += 1
        self._count += 1
        said = comment.encode("utf-8", "backslashreplace")
        head = _ITEM.pack(max(0, place.at), event.connection.number, place.direction, hole, len(said))
        self._order.add(place.key(self._count), head + said + data)

    def _of(self, event: Event) -> _Open:
        number = event.connection.number
        known = self._connections.get(number)
        if known is None:
            known = self._connections[number] = _Open(self._rewriter.connection(event.connection))
        return known

    def _write(self, item: bytes) -> None:
        """The packets of an item, with those that open and close its connection before and behind them."""
        at, number, direction, hole, comment_size = _ITEM.unpack_from(item)
        start = _ITEM.size + comment_size
        known = self._connections[number]
        packets: list[bytes] = []
        if known.tcp is None:
            known.tcp = SyntheticTcp(number, known.connection.client, known.connection.broker)
            packets += known.tcp.handshake()
        before = len(packets)
        packets += known.tcp.data(direction, item[start:])
        commented = len(packets) - 1 if len(packets) > before else None
        if hole:
            known.tcp.hole(direction, hole)
            packets += known.tcp.acknowledge(direction)
        known.items -= 1
        if not known.items:
            packets += known.tcp.farewell(known.farewell)
            del self._connections[number]
        comment = item[_ITEM.size : start].decode()
        for index, data in enumerate(packets):
            self._sink.write(packet(at, data, comment if index == commented else ""))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something stands among the packets: by its time, then requests first, then by what is known of its order."""

    at: int
    direction: int
    started_at: int = 0
    ended_at: int = 0
    correlation_id: int = 0  # of a request: those that are not answered are told before older ones that are

    def key(self, count: int) -> bytes:
        """Compares as bytes; *count* decides last."""
        times = max(0, self.started_at), max(0, self.ended_at)
        return _KEY.pack(max(0, self.at), self.direction, *times, self.correlation_id, count)
