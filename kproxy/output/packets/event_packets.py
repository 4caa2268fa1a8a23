"""Events as packets of a capture: the bytes of frames without credentials, each with a comment, and holes for missing bytes.

EventPieces chooses which bytes of an event are written, in order; Conversation makes packets of them.
"""

from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.packets.blocks import packet
from kproxy.output.packets.synthetic_tcp import SEGMENT, SyntheticTcp
from kproxy.output.rewriting.rewriter import Rewriter, Rewritten
from kproxy.output.text.lines import TextLines
from kproxy.protocol.frames import GSSAPI_FIRST_BYTE, SIZE_FIELD
from kproxy.session import BadFrame, Connection, Cut, Direction, Event, Exchange, Frame, Gap, Note, SaslToken

TOKEN = bytes([GSSAPI_FIRST_BYTE])
SMALLEST_HOLE = 1  # bytes: for a gap of unknown size
MOST_UINT32 = 0xFFFFFFFF
NEVER_SENT = (Cut.RESET, Cut.CAPTURE_ENDED)


class Piece(NamedTuple):
    """Bytes sent in one direction, perhaps followed by missing ones, with their times and order."""

    at: int  # ns
    direction: Direction
    data: bytes = b""
    comment: str = ""
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
        done = Rewritten(event) if self._stays(event) else self._rewriter.exchange(event)
        exchange = done.exchange
        # Embedded payloads are decoded again, without the run's memory, which a reader of one part of the capture lacks.
        if bodies is None or exchange is not event or bodies.embedded:
            bodies = read_bodies(exchange)
        pieces: list[Piece] = []
        if exchange.request is not None:
            alone = Bodies(bodies.request, undecoded=bodies.undecoded if bodies.request is None else None)
            alone.beginnings = {side: one for side, one in bodies.beginnings.items() if side == "request"}
            line = _noted(self._lines.comment(exchange, alone, alone=True), done.request_note)
            pieces += _frame(event, exchange.request, Direction.REQUEST, line)
        if exchange.response is not None:
            line = _noted(self._lines.comment(exchange, bodies), done.response_note)
            pieces += _frame(event, exchange.response, Direction.RESPONSE, line)
        return pieces

    def _stays(self, event: Exchange) -> bool:
        """Return whether the rewriter would change nothing."""
        for frame in (event.request, event.response):
            if frame is not None and (frame.message is None or frame.cut or self._rewriter.wants(frame)):
                return False
        return True

    def _token(self, event: SaslToken) -> Piece:
        data = event.size.to_bytes(SIZE_FIELD, "big") + TOKEN * event.size
        line = self._lines.comment(replace(event, connection=self.connection(event.connection), parts=None))
        return Piece(event.at, event.direction, data, line, 0, event.at, event.at)


class Conversation:
    """The packets of one connection, from its handshake on.

    Raises ValueError for an invalid address.
    """

    def __init__(self, number: int, connection: Connection) -> None:
        self._tcp = SyntheticTcp(number, connection.client, connection.broker)
        self._begun = False

    def blocks(self, piece: Piece, farewell: tuple[int, ...] = ()) -> bytes:
        """Return a piece as blocks of a pcapng file: after the handshake if it is the first, before the FINs of *farewell*."""
        if self._begun and not piece.hole and not farewell and len(piece.data) <= SEGMENT:
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
        comments = [piece.comment if index == commented else "" for index in range(len(packets))]
        return b"".join(map(packet, repeat(piece.at), packets, comments))

    def farewell(self, at: int, directions: tuple[int, ...]) -> bytes:
        """Return the FINs of *directions* as blocks, after the handshake if nothing was sent before."""
        return b"".join(packet(at, data) for data in self._handshake() + self._tcp.farewell(directions))

    def _handshake(self) -> list[bytes]:
        if self._begun:
            return []
        self._begun = True
        return self._tcp.handshake()


def _noted(line: str, note: str) -> str:
    return f"{line} [{note}]" if note else line


def _frame(event: Exchange, frame: Frame, direction: Direction, comment: str) -> list[Piece]:
    data = frame.size.to_bytes(SIZE_FIELD, "big") + frame.data
    correlation_id = 0 if direction or event.correlation_id is None else event.correlation_id & MOST_UINT32
    hole = 0 if frame.cut in NEVER_SENT else frame.size - len(frame.data)
    times = frame.started_at, frame.ended_at, correlation_id
    if frame.cut:
        return [Piece(frame.started_at, direction, data, comment, hole, *times)]
    if frame.started_at == frame.ended_at:
        return [Piece(frame.ended_at, direction, data, comment, 0, *times)]
    first = min(SEGMENT, len(data) // 2)
    return [
        Piece(frame.started_at, direction, data[:first], "", 0, *times),
        Piece(frame.ended_at, direction, data[first:], comment, 0, *times),
    ]


def _hole(event: Gap | BadFrame | Note) -> Piece:
    size = SMALLEST_HOLE
    if isinstance(event, Gap):
        size = max(size, min((event.size or 0) + event.skipped, MOST_UINT32))
    return Piece(event.at, event.direction, hole=size)
