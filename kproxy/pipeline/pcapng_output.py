"""Write exchanges as a capture that Wireshark reads: decrypted, in order, with a comment on each frame.

Two outputs write the same packets in different orders:

    OrderedPcapng   for files: in the order of their times, so nothing is written before everything is read
    LivePcapng      for live traffic: each exchange when it is complete; each part of the file is a complete capture

A frame whose first and last byte came at different times becomes two or more packets. Connections that are not Kafka are left
out. EventPieces chooses which bytes of an event are written, credentials withheld; Conversation makes packets of them.
"""

import heapq
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from itertools import repeat
from struct import Struct
from typing import NamedTuple

from kproxy import __version__
from kproxy.capture.reader import ClosedOnExit
from kproxy.output.bodies import Bodies
from kproxy.output.packets import SEGMENT, SyntheticTcp, file_header, packet
from kproxy.output.rewriting.rewriter import Rewriter, Rewritten
from kproxy.output.text.exchange_words import comments
from kproxy.output.text.lines import TextLines
from kproxy.pipeline.output import End, Output, Source
from kproxy.pipeline.sink import RotatingFile, Writable
from kproxy.protocol.addresses import join_ip_address, mapped, split_address
from kproxy.protocol.constants import GSSAPI_FIRST_BYTE, SIZE_FIELD
from kproxy.session import BadFrame, Connection, Cut, Direction, Event, Exchange, Frame, Gap, Note, SaslToken
from kproxy.session.endings import who_closed

RUN = 64 * 1024 * 1024  # bytes of items sorted in memory at a time
OVERHEAD = 120  # bytes of memory that each item takes in addition to its data
BLOCK = 256 * 1024  # bytes read from a run at a time

_SIZES = Struct("<II")


class TimeOrder(ClosedOnExit):
    """Sorts items by bytes keys, with little memory: it sorts runs, keeps them in an unnamed temporary file, then merges them.

    Add all items, then iterate. Close it, or use `with`.

    Args:
        run: bytes of items to hold in memory.

    Raises OSError if the temporary file cannot be written.
    """

    def __init__(self, *, run: int = RUN) -> None:
        self._run = run
        self._held: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._runs: list[tuple[int, int]] = []  # start and end in the file
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close

    def add(self, key: bytes, item: bytes) -> None:
        self._held.append((key, item))
        self._size += len(key) + len(item) + OVERHEAD
        if self._size >= self._run:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the items in the order of their keys; equal keys keep the order in which they were added."""
        self._held.sort(key=_first)
        if not self._runs:
            return (item for _, item in self._held)
        self._spill()
        runs = [self._read(start, end) for start, end in self._runs]
        return (item for _, item in heapq.merge(*runs, key=_first))

    def _spill(self) -> None:
        """Write the items in memory as a run."""
        held, self._held, self._size = self._held, [], 0
        held.sort(key=_first)
        start = self._file.tell()
        for key, item in held:
            self._file.write(_SIZES.pack(len(key), len(item)) + key + item)
        self._file.flush()
        self._runs.append((start, self._file.tell()))

    def _read(self, position: int, end: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the items of a run, read in blocks."""
        block, at = b"", 0
        while at < len(block) or position < end:
            need = _SIZES.size
            if len(block) - at >= need:
                key_size, item_size = _SIZES.unpack_from(block, at)
                need += key_size + item_size
            if len(block) - at < need:
                more = os.pread(self._file.fileno(), min(max(BLOCK, need), end - position), position)
                position += len(more)
                block, at = block[at:] + more, 0
                continue
            key_end = at + _SIZES.size + key_size
            yield block[at + _SIZES.size : key_end], block[key_end : at + need]
            at += need

    def close(self) -> None:
        """Remove the temporary file with the items in it."""
        self._file.close()


def _first(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0]


BOTH = tuple(Direction)
ENDINGS = {  # which side sent FIN first, derived from why a request is unanswered
    who_closed(by, reset=reset): order
    for by, order in ((Direction.REQUEST, (0,)), (Direction.RESPONSE, (1, 0)))
    for reset in (False, True)
}

_KEY = Struct(">QBQQIQ")  # the sort key of a piece, see _key
_ITEM = Struct(">QQBII")  # time, connection, direction, size of the hole behind the bytes, size of the comment
TOKEN = bytes([GSSAPI_FIRST_BYTE])
SMALLEST_HOLE = 1  # bytes: for a gap of unknown size
MOST_UINT32 = 0xFFFFFFFF
NEVER_SENT = (Cut.RESET, Cut.CAPTURE_ENDED)


class Piece(NamedTuple):
    """Bytes sent in one direction, perhaps followed by missing ones, with their times and order."""

    at: int  # ns
    direction: Direction
    data: bytes = b""
    comment: bytes = b""  # UTF-8
    hole: int = 0  # bytes
    started_at: int = 0
    ended_at: int = 0
    # Of a request. Unanswered requests may be reported before older answered ones; it restores their order.
    correlation_id: int = 0


class EventPieces:
    """Turns events into the pieces to be written. *rewriter* withholds credentials, or anonymizes."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._lines = TextLines()

    def of(self, event: Event, bodies: Bodies | None = None) -> list[Piece]:
        """Return the pieces of an exchange, with holes in place of missing frames; nothing for other events.

        *bodies*: of the exchange, if they were read for another output.
        """
        if isinstance(event, Exchange):
            return self._exchange(event, bodies)
        if isinstance(event, SaslToken):
            return [self._token(event)]
        if isinstance(event, Gap) and event.in_frame:
            return []  # the cut frame has the hole
        return [_hole(event)] if isinstance(event, Gap | BadFrame | Note) else []

    def connection(self, connection: Connection) -> Connection:
        """Return the connection as the rewriter shows it."""
        return self._rewriter.connection(connection)

    def _exchange(self, event: Exchange, bodies: Bodies | None) -> list[Piece]:
        done = Rewritten(event) if self.stays(event) else self._rewriter.exchange(event)
        exchange = done.exchange
        on_request, on_response = _comments(exchange, bodies if exchange is event else None)
        pieces: list[Piece] = []
        if exchange.request is not None:
            pieces += _frame(event, exchange.request, Direction.REQUEST, _noted(on_request, done.request_note))
        if exchange.response is not None:
            pieces += _frame(event, exchange.response, Direction.RESPONSE, _noted(on_response, done.response_note))
        return pieces

    def stays(self, event: Exchange) -> bool:
        """Return whether both frames are complete and the rewriter would change nothing."""
        for frame in (event.request, event.response):
            if frame is not None and (frame.message is None or frame.cut or self._rewriter.wants(frame)):
                return False
        return True

    def _token(self, event: SaslToken) -> Piece:
        data = event.size.to_bytes(SIZE_FIELD, "big") + TOKEN * event.size
        line = self._lines.comment(replace(event, connection=self.connection(event.connection), parts=None))
        return Piece(event.at, event.direction, data, line.encode(), 0, event.at, event.at)


class Conversation:
    """The packets of one connection, from its handshake on.

    Raises ValueError for an invalid address.
    """

    def __init__(self, number: int, connection: Connection) -> None:
        self._tcp = SyntheticTcp(number, connection.client, connection.broker)
        self.has_begun = False

    def exchange(self, event: Exchange, bodies: Bodies | None) -> bytes:
        """Return the frames of an exchange that stays as it is (EventPieces.stays), after the handshake."""
        return self._tcp.exchange(event, _comments(event, bodies))

    def blocks(self, piece: Piece, farewell: tuple[int, ...] = ()) -> bytes:
        """Return a piece as blocks of a pcapng file: after the handshake if it is the first, before the FINs of *farewell*."""
        if self.has_begun and not piece.hole and not farewell and len(piece.data) <= SEGMENT:
            return b"".join(
                [packet(piece.at, data, piece.comment) for data in self._tcp.data(piece.direction, piece.data)]
            )
        packets = self._handshake()
        before = len(packets)
        packets += self._tcp.data(piece.direction, piece.data)
        commented = len(packets) - 1 if len(packets) > before else None
        if piece.hole:
            self._tcp.hole(piece.direction, piece.hole)
            packets += self._tcp.acknowledge(piece.direction)
        if farewell:
            packets += self._tcp.farewell(farewell)
        comments = [piece.comment if index == commented else b"" for index in range(len(packets))]
        return b"".join(map(packet, repeat(piece.at), packets, comments))

    def farewell(self, at: int, directions: tuple[int, ...]) -> bytes:
        """Return the FINs of *directions* as blocks, after the handshake if nothing was sent before."""
        return b"".join(packet(at, data) for data in self._handshake() + self._tcp.farewell(directions))

    def _handshake(self) -> list[bytes]:
        if self.has_begun:
            return []
        self.has_begun = True
        return self._tcp.handshake()


def _comments(exchange: Exchange, bodies: Bodies | None) -> tuple[bytes, bytes]:
    # Embedded payloads are decoded again, without the run's memory, which a reader of one part of the capture lacks.
    return comments(exchange, None if bodies is not None and bodies.embedded else bodies)


def _noted(line: bytes, note: str) -> bytes:
    return b"%b [%b]" % (line, note.encode("utf-8", "backslashreplace")) if note else line


def _frame(event: Exchange, frame: Frame, direction: Direction, comment: bytes) -> list[Piece]:
    data = frame.size.to_bytes(SIZE_FIELD, "big") + frame.data
    correlation_id = 0 if direction or event.correlation_id is None else event.correlation_id & MOST_UINT32
    times = frame.started_at, frame.ended_at, correlation_id
    if frame.cut:
        hole = 0 if frame.cut in NEVER_SENT else frame.size - len(frame.data)
        return [Piece(frame.started_at, direction, data, comment, hole, *times)]
    if frame.started_at == frame.ended_at:
        return [Piece(frame.ended_at, direction, data, comment, 0, *times)]
    first = min(SEGMENT, len(data) // 2)
    return [
        Piece(frame.started_at, direction, data[:first], b"", 0, *times),
        Piece(frame.ended_at, direction, data[first:], comment, 0, *times),
    ]


def _hole(event: Gap | BadFrame | Note) -> Piece:
    size = SMALLEST_HOLE
    if isinstance(event, Gap):
        size = max(size, min((event.size or 0) + event.skipped, MOST_UINT32))
    return Piece(event.at, event.direction, hole=size)


@dataclass(slots=True)
class _Open:
    """A connection with more packets to come."""

    connection: Connection
    items: int = 0
    farewell: tuple[int, ...] = BOTH  # the sides whose FIN is written at the end
    conversation: Conversation | None = None


class OrderedPackets(Output):
    """Keeps all packets, in a temporary file if they are many, and returns them in the order of their times.

    Args:
        rewriter: withholds credentials, or anonymizes.

    Raises OSError if the temporary file cannot be written.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        self._pieces = EventPieces(rewriter)
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
        yield _header()
        yield from map(self._packets, self._order)

    def _add(self, event: Event, piece: Piece) -> None:
        self._of(event).items += 1
        self._count += 1
        size = len(piece.comment)
        head = _ITEM.pack(max(0, piece.at), event.connection.number, piece.direction, piece.hole, size)
        self._order.add(_key(piece, self._count), head + piece.comment + piece.data)

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
            known.conversation = Conversation(number, with_same_ip_version(known.connection))
        known.items -= 1
        if not known.items:
            del self._connections[number]
        piece = Piece(at, direction, item[start:], item[_ITEM.size : start], hole)
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


class LivePcapng(Output):
    """Writes each exchange when it is complete, credentials withheld.

    Every part of *file* is a complete capture: in each, a connection begins with a handshake and at the start of a frame.
    *file* calls ``begin_part`` for the first bytes of a part.
    """

    def __init__(self, file: RotatingFile) -> None:
        self._pieces = EventPieces(Rewriter())
        self._file = file
        self._source = 0
        self._conversations: dict[tuple[int, int], Conversation | None] = {}  # by source and number; None: unwritable
        self._count = 0
        self.unwritable = 0  # connections left out because an address is not one of IP
        file.begin_part = self._begin_part

    def _begin_part(self) -> bytes:
        self._conversations.clear()
        return _header()

    def start_source(self, source: Source) -> None:
        self._source = source.number

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if not shown:
            return
        stays = isinstance(event, Exchange) and self._pieces.stays(event)
        pieces = [] if stays else self._pieces.of(event, bodies)
        if not (stays or pieces) or not self._file.is_open():
            return
        conversation = self._conversation(event.connection)
        if conversation is None:
            return
        if isinstance(event, Exchange) and stays and conversation.has_begun:
            self._file.append(conversation.exchange(event, bodies))
        else:
            pieces = pieces or self._pieces.of(event, bodies)
            self._file.append(b"".join([conversation.blocks(piece) for piece in pieces]))

    def end(self, end: End) -> None:
        """See Output. If the connection occurs in this part, it ends in it with FINs."""
        key = self._source, end.connection
        if end.side is None and key in self._conversations and self._file.is_open():
            conversation = self._conversations.pop(key, None)
            if conversation is not None:
                self._file.append(conversation.farewell(end.at, BOTH))

    def flush(self) -> None:
        self._file.flush()

    def close(self, error: BaseException | None = None) -> None:
        self._file.close(error)

    def _conversation(self, connection: Connection) -> Conversation | None:
        key = self._source, connection.number
        if key not in self._conversations:
            self._count += 1
            try:
                conversation = Conversation(self._count, with_same_ip_version(self._pieces.connection(connection)))
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
    """Return the bytes that sort a piece: by time, requests first, then by the frame's times, correlation id, and *count*."""
    times = max(0, piece.started_at), max(0, piece.ended_at)
    return _KEY.pack(max(0, piece.at), piece.direction, *times, piece.correlation_id, count)


def _header() -> bytes:
    """Return the blocks at the beginning of a file, or of a part."""
    return file_header(f"kproxy {__version__}")
