"""Write exchanges as a capture that Wireshark reads: decrypted, in order, with a comment on each frame.

Two outputs write the same packets in different orders:

    OrderedPcapng   for files: in the order of their times, so nothing is written before everything is read
    LivePcapng      for live traffic: each exchange when it is complete; each part of the file is a complete capture

A frame whose first and last byte came at different times becomes two or more packets. Connections that are not Kafka are left
out.
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
ENDINGS = {  # which side sent FIN first, derived from why a request is unanswered
    who_closed(by, reset=reset): order
    for by, order in ((Direction.REQUEST, (0,)), (Direction.RESPONSE, (1, 0)))
    for reset in (False, True)
}

_KEY = Struct(">QBQQIQ")  # the sort key of a piece, see _key
_ITEM = Struct(">QQBII")  # time, connection, direction, size of the hole behind the bytes, size of the comment


class _Pcapng(Output):
    """The base of both outputs: the file's header, the pieces of an event, and the packets of a connection."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._pieces = EventPieces(rewriter)

    @staticmethod
    def header() -> bytes:
        """Return the blocks at the beginning of a file, or of a part."""
        return file_header(f"kproxy {__version__}")

    def conversation(self, number: int, connection: Connection) -> Conversation:
        """Return what makes the packets of a connection. Raises ValueError if an address cannot be one of IP."""
        return Conversation(number, with_same_ip_version(connection))


@dataclass(slots=True)
class _Open:
    """A connection with more packets to come."""

    connection: Connection
    items: int = 0
    farewell: tuple[int, ...] = BOTH  # the sides whose FIN is written at the end
    conversation: Conversation | None = None


class OrderedPackets(_Pcapng):
    """Keeps all packets, in a temporary file if they are many, and returns them in the order of their times.

    Args:
        rewriter: withholds credentials, or anonymizes.

    Raises OSError if the temporary file cannot be written.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        super().__init__(rewriter)
        self._order = TimeOrder()
        self._connections: dict[int, _Open] = {}
        self._count = 0

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Keep the frames of an exchange, or placeholders for missing ones."""
        if not shown:
            return
        for piece in self._pieces.of(event):
            self._add(event, piece)
        if isinstance(event, Exchange) and event.unanswered is not None:
            self._of(event).farewell = ENDINGS.get(event.connection.closed or "", ())

    def flush(self) -> None:
        """See Output. Does nothing: packets are written at the end."""

    def close(self, error: BaseException | None = None) -> None:
        """Remove the temporary file."""
        self._order.close()

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the capture. Call it once, after the last event."""
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
        """Return the packets of an item, with its connection's handshake before the first and FINs after the last one."""
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
        sink: closed with the output. If the run ended with an error, nothing is written to it.
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
    """A file in parts (RotatingFile), or a stream of such parts."""

    begin_part: Callable[[], bytes]

    def is_open(self) -> bool:
        """Return whether a piece can be appended now; begins a new part if one is due."""

    def append(self, data: bytes) -> None:
        """Append a piece, after ``is_open`` returned True."""

    def flush(self) -> None:
        """Write buffered data."""

    def close(self, error: BaseException | None = None) -> None:
        """Close it."""


class LivePcapng(_Pcapng):
    """Writes each exchange when it is complete, credentials withheld.

    Every part of *file* is a complete capture: in each, a connection begins with a handshake and at the start of a frame.
    *file* calls ``begin_part`` for the first bytes of a part.
    """

    def __init__(self, file: Parts) -> None:
        super().__init__(Rewriter())
        self._file = file
        self._source = 0
        self._conversations: dict[tuple[int, int], Conversation | None] = {}  # by source and number; None: unwritable
        self._count = 0
        self.unwritable = 0  # connections left out because an address is not one of IP
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
        """See Output. If the connection occurs in this part, it ends in it with FINs."""
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
                conversation = self.conversation(self._count, self._pieces.connection(connection))
            except ValueError:
                self.unwritable += 1
                conversation = None
            self._conversations[key] = conversation
        return self._conversations[key]


def with_same_ip_version(connection: Connection) -> Connection:
    """Return the connection with both addresses as IPv6 if one of them is (IPv4-mapped, RFC 4291, 2.5.5.2)."""
    ends = connection.client, connection.broker
    if sum(end.startswith("[") for end in ends) != 1:
        return connection
    client, broker = (end if end.startswith("[") else _mapped(end) for end in ends)
    return Connection(connection.number, client, broker)


def _mapped(end: str) -> str:
    host, port = split_address(end)
    return join_ip_address(mapped(IPv4Address(host)), port)


def _key(piece: Piece, count: int) -> bytes:
    """Return the sort key of a piece as bytes: time, requests before responses, then what else is known, *count* last."""
    times = max(0, piece.started_at), max(0, piece.ended_at)
    return _KEY.pack(max(0, piece.at), piece.direction, *times, piece.correlation_id, count)
