"""The files of the analyzer: the decoded log and a capture, in parts, written while traffic runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kproxy import __version__
from kproxy.config import Rotated
from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.output.packets.blocks import file_header
from kproxy.output.packets.event_packets import Conversation, EventPieces
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.proxy.analyzer.rotation import Report, RotatingFile
from kproxy.proxy.analyzer.tapped_sessions import Key
from kproxy.session import Connection, Direction, Event

Clock = Callable[[], float]


class AnalysisOutput(Protocol):
    """Where events go."""

    file: RotatingFile

    def take(self, key: Key, event: Event, bodies: Bodies | None) -> None:
        """Take an event, with its bodies if it is an exchange."""

    def closed(self, key: Key, at: int) -> None:
        """Learn that there is no more of a connection."""


def rotating_file(options: Rotated, clock: Clock, report: Report, begin: Callable[[], bytes] = bytes) -> RotatingFile:
    """A file as the configuration says."""
    return RotatingFile(
        Path(options.path),
        most_size=options.most_size,
        most_age=options.most_age,
        keep=options.keep,
        clock=clock,
        report=report,
        begin=begin,
    )


class DecodedLog:
    """The decoded log, as ``kproxy decode --format jsonl`` writes it."""

    def __init__(self, options: Rotated, clock: Clock, report: Report) -> None:
        self.file = rotating_file(options, clock, report)

    def take(self, _key: Key, event: Event, bodies: Bodies | None) -> None:
        """See AnalysisOutput."""
        self.file.write(event_line(event, bodies))

    def closed(self, key: Key, at: int) -> None:
        """See AnalysisOutput: no line is about it."""


class Capture:
    """The decrypted conversations as pcapng, credentials withheld, with a comment on each frame.

    Exchanges are written when they are complete. Every part is a capture of its own: in each a connection begins with a
    handshake, at a frame's start.
    """

    def __init__(self, options: Rotated, clock: Clock, report: Report) -> None:
        self._conversations: dict[Key, Conversation | None] = {}
        self._pieces = EventPieces(Rewriter())
        self._count = 0
        self.unwritable = 0  # connections whose addresses no packet can have
        self.file = rotating_file(options, clock, report, self._begin)

    def _begin(self) -> bytes:
        self._conversations.clear()
        return file_header(f"kproxy {__version__}")

    def take(self, key: Key, event: Event, _bodies: Bodies | None) -> None:
        """See AnalysisOutput."""
        pieces = self._pieces.of(event)
        if not pieces or not self.file.is_open():
            return
        conversation = self._conversation(key, event.connection)
        if conversation is not None:
            self.file.append(b"".join([conversation.blocks(piece) for piece in pieces]))

    def closed(self, key: Key, at: int) -> None:
        """See AnalysisOutput."""
        if key in self._conversations and self.file.is_open():
            conversation = self._conversations.pop(key, None)
            if conversation is not None:
                self.file.append(conversation.farewell(at, tuple(Direction)))

    def _conversation(self, key: Key, connection: Connection) -> Conversation | None:
        if key not in self._conversations:
            self._count += 1
            try:
                made = Conversation(self._count, with_same_ip_version(self._pieces.connection(connection)))
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
    host, _, port = end.rpartition(":")
    return f"[::ffff:{host}]:{port}"
