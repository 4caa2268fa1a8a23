"""Write exchanges as a capture that Wireshark reads: decrypted, in order, with a comment on each frame.

Two outputs write the same packets in different orders:

    OrderedPcapng   of files: in the order of their times, so nothing is written before all is read
    LivePcapng      of live traffic: each exchange when it is complete, in parts, each of which is a capture of its own

A frame whose first and last byte came at different times is in two packets or more. Connections that are not Kafka are left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from struct import Struct
from typing import Protocol

from kproxy import __version__
from kproxy.output.bodies import Bodies
from kproxy.output.packets.blocks import file_header
from kproxy.output.packets.event_packets import Conversation, EventPieces, Piece
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.pipeline.output import End, Output, Source
from kproxy.pipeline.sink import Writable
from kproxy.pipeline.time_order import TimeOrder
from kproxy.protocol.addresses import join_ip_address, mapped, split_address
from kproxy.session import Connection, Direction, Event, Exchange
from kproxy.session.closing import who_closed

BOTH = tuple(Direction)
ENDINGS = {  # who sent FIN first, as far as unanswered requests tell
    who_closed(by, reset=reset): order
    for by, order in ((Direction.REQUEST, (0,)), (Direction.RESPONSE, (1, 0)))
    for reset in (False, True)
}

_KEY = Struct(">QBQQIQ")  # a place in the order, and how many pieces came before
_ITEM = Struct(">QQBII")  # time, connection, direction, size of the hole behind the bytes, size of the comment


class _Pcapng(Output):
    """What both orders have in common: the file's header, the pieces of an event, and the packets of a connection."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._pieces = EventPieces(rewriter)

    @staticmethod
    def header() -> bytes:
        """The blocks that a file, or a part of it, begins with."""
        return file_header(f"kproxy {__version__}")

    def conversation(self, number: int, connection: Connection) -> Conversation:
        """The packets of a connection, whose addresses are as they shall be shown. Raises ValueError for one that is none."""
        return Conversation(number, with_same_ip_version(connection))


@dataclass(slots=True)
class _Open:
    """A connection of which there is more to write."""

    connection: Connection
    items: int = 0
    farewell: tuple[int, ...] = BOTH  # the sides that send FIN
    conversation: Conversation | None = None


class OrderedPackets(_Pcapng):
    """Keeps the packets, in a temporary file where they are many, and gives them all, in the order of their times.

    Args:
        rewriter: withholds credentials, or anonymizes.

    Raises OSError where the temporary file cannot be written.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        super().__init__(rewriter)
        self._order = TimeOrder()
        self._connections: dict[int, _Open] = {}
        self._count = 0

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Keep the frames of an exchange, or what stands for frames that are missing."""
        if not shown:
            return
        for piece in self._pieces.of(event):
            self._add(event, piece)
        if isinstance(event, Exchange) and event.unanswered is not None:
            self._of(event).farewell = ENDINGS.get(event.connection.closed or "", ())

    def flush(self) -> None:
        """See Output: nothing can be written before the end."""

    def close(self, error: BaseException | None = None) -> None:
        """Remove the temporary file."""
        self._order.close()

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the capture, from its header on. Call it once, when all is kept."""
        yield self.header()
        yield from map(self._packets, self._order)

    def _add(self, event: Event, piece: Piece) -> None:
        self._of(event).items += 1
        self._count += 1
        comment = piece.comment.encode("utf-8", "backslashreplace")
        head = _ITEM.pack(max(0, piece.at), event.connection.number, piece.direction, piece.hole, len(comment))
        self._order.add(_key(piece, self._count), head + comment + piece.data)

    def _of(self, event: Event) -> _Open:
        number = event.connection.number
        known = self._connections.get(number)
        if known is None:
            known = self._connections[number] = _Open(self._pieces.connection(event.connection))
        return known

    def _packets(self, item: bytes) -> bytes:
        """The packets of an item, with those that open and close its connection before and behind them."""
        at, number, direction, hole, comment_size = _ITEM.unpack_from(item)
        start = _ITEM.size + comment_size
        known = self._connections[number]
        if known.conversation is None:
            known.conversation = self.conversation(number, known.connection)
        known.items -= 1
        if not known.items:
            del self._connections[number]
        piece = Piece(at, direction, item[start:], item[_ITEM.size : start].decode(), hole)
        return known.conversation.blocks(piece, () if known.items else known.farewell)


class OrderedPcapng(OrderedPackets):
    """Writes the packets to *sink* when it is closed.

    Args:
        sink: closed with the output. Where the run ended with an error nothing is written to it.
        rewriter: withholds credentials, or anonymizes.
    """

    def __init__(self, sink: Writable, rewriter: Rewriter) -> None:
        super().__init__(rewriter)
        self._sink = sink

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""
        try:
            if error is None:
                for blocks in self.blocks():
                    self._sink.write(blocks)
        except BaseException as failed:
            self._sink.close(failed)
            raise
        finally:
            super().close()
        self._sink.close(error)


class Parts(Protocol):
    """A file that is written in parts (RotatingFile), or a stream of them."""

    begin_part: Callable[[], bytes]

    def is_open(self) -> bool:
        """Whether a piece can be appended now; begins a part where one is due."""

    def append(self, data: bytes) -> None:
        """Append a piece, after ``is_open``."""

    def flush(self) -> None:
        """Write what is buffered."""

    def close(self, error: BaseException | None = None) -> None:
        """Close it."""


class LivePcapng(_Pcapng):
    """Writes each exchange when it is complete, credentials withheld.

    Every part of *file* is a capture of its own: in each a connection begins with a handshake, at a frame's start. *file* is to
    call ``begin_part`` for what a part begins with.
    """

    def __init__(self, file: Parts) -> None:
        super().__init__(Rewriter())
        self._file = file
        self._source = 0
        self._conversations: dict[tuple[int, int], Conversation | None] = {}  # by source and number; None: unwritable
        self._count = 0
        self.unwritable = 0  # connections with addresses that no IP packet can have
        file.begin_part = self._begin_part

    def _begin_part(self) -> bytes:
        self._conversations.clear()
        return self.header()

    def start_source(self, source: Source) -> None:
        """See Output."""
        self._source = source.number

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if not shown:
            return
        pieces = self._pieces.of(event, bodies)
        if not pieces or not self._file.is_open():
            return
        conversation = self._conversation(event.connection)
        if conversation is not None:
            self._file.append(b"".join([conversation.blocks(piece) for piece in pieces]))

    def end(self, end: End) -> None:
        """See Output: a connection that is in this part ends in it with FINs."""
        key = self._source, end.connection
        if end.side is None and key in self._conversations and self._file.is_open():
            conversation = self._conversations.pop(key, None)
            if conversation is not None:
                self._file.append(conversation.farewell(end.at, BOTH))

    def flush(self) -> None:
        """See Output."""
        self._file.flush()

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""
        self._file.close(error)

    def _conversation(self, connection: Connection) -> Conversation | None:
        key = self._source, connection.number
        if key not in self._conversations:
            self._count += 1
            try:
                made = self.conversation(self._count, self._pieces.connection(connection))
            except ValueError:
                self.unwritable += 1
                made = None
            self._conversations[key] = made
        return self._conversations[key]


def with_same_ip_version(connection: Connection) -> Connection:
    """The connection with an IPv4 address as an IPv6 one (RFC 4291, 2.5.5.2) where the other end has one of those."""
    ends = connection.client, connection.broker
    if sum(end.startswith("[") for end in ends) != 1:
        return connection
    client, broker = (end if end.startswith("[") else _mapped(end) for end in ends)
    return Connection(connection.number, client, broker)


def _mapped(end: str) -> str:
    host, port = split_address(end)
    return join_ip_address(mapped(IPv4Address(host)), port)


def _key(piece: Piece, count: int) -> bytes:
    """The place of a piece in the order, as bytes that compare: its time, then requests first, then what else is known.

    *count* decides last.
    """
    times = max(0, piece.started_at), max(0, piece.ended_at)
    return _KEY.pack(max(0, piece.at), piece.direction, *times, piece.correlation_id, count)
