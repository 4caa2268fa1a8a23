"""``--format pcapng``: exchanges as a capture that Wireshark reads: decrypted, in order, with a comment on each frame.

Packets stand in the order of their times, so nothing is written before all is read. A frame whose first and last byte came at
different times is in two packets or more. Connections that are not Kafka are left out.
"""

from dataclasses import dataclass
from struct import Struct

from kproxy import __version__
from kproxy.output.bodies import Bodies
from kproxy.output.packets.blocks import file_header
from kproxy.output.packets.event_packets import Conversation, EventPieces, Piece
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.pipeline.sink import Sink
from kproxy.pipeline.time_order import TimeOrder
from kproxy.session import Connection, Direction, Event, Exchange
from kproxy.session.session import BROKER_CLOSED, CONNECTION_CLOSED

ENDINGS = {CONNECTION_CLOSED: (0,), BROKER_CLOSED: (1, 0)}  # who said what, as far as unanswered requests tell

_KEY = Struct(">QBQQIQ")  # a place, and how many came before
_ITEM = Struct(">QQBII")  # time, connection, direction, size of the hole behind the bytes, size of the comment


@dataclass(slots=True)
class _Open:
    """A connection of which there is more to write."""

    connection: Connection
    items: int = 0
    farewell: tuple[int, ...] = tuple(Direction)  # the sides that say that they are done
    conversation: Conversation | None = None


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
        self._pieces = EventPieces(rewriter)
        self._connections: dict[int, _Open] = {}
        self._count = 0

    def take(self, event: Event, _bodies: Bodies | None) -> None:
        """Keep the frames of an exchange, or what stands for frames that are not there."""
        for piece in self._pieces.of(event):
            self._add(event, piece)
        if isinstance(event, Exchange) and event.unanswered is not None:
            self._of(event).farewell = ENDINGS.get(event.unanswered, ())

    def finish(self) -> None:
        """Write the file."""
        self._sink.write(file_header(f"kproxy {__version__}"))
        for item in self._order:
            self._write(item)

    def _add(self, event: Event, piece: Piece) -> None:
        self._of(event).items += 1
        self._count += 1
        said = piece.comment.encode("utf-8", "backslashreplace")
        head = _ITEM.pack(max(0, piece.at), event.connection.number, piece.direction, piece.hole, len(said))
        self._order.add(_key(piece, self._count), head + said + piece.data)

    def _of(self, event: Event) -> _Open:
        number = event.connection.number
        known = self._connections.get(number)
        if known is None:
            known = self._connections[number] = _Open(self._pieces.connection(event.connection))
        return known

    def _write(self, item: bytes) -> None:
        """The packets of an item, with those that open and close its connection before and behind them."""
        at, number, direction, hole, comment_size = _ITEM.unpack_from(item)
        start = _ITEM.size + comment_size
        known = self._connections[number]
        if known.conversation is None:
            known.conversation = Conversation(number, known.connection)
        known.items -= 1
        if not known.items:
            del self._connections[number]
        piece = Piece(at, direction, item[start:], item[_ITEM.size : start].decode(), hole)
        self._sink.write(known.conversation.blocks(piece, () if known.items else known.farewell))


def _key(piece: Piece, count: int) -> bytes:
    """Where a piece stands: by its time, then requests first, then by what is known of its order; compares as bytes.

    *count* decides last.
    """
    times = max(0, piece.started_at), max(0, piece.ended_at)
    return _KEY.pack(max(0, piece.at), piece.direction, *times, piece.correlation_id, count)
