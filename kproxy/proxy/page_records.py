"""What the analyzer sends the process of the live page: pieces of many records in msgpack, each piece after its size.

A feed begins with the Topics of each cluster and the Begun of each open connection. An exchange refers to its connection by a
number that is unique in the feed. Each piece of exchanges ends with a Tally: how many there were so far and how many of them were
left out, so that the numbers are exact at that point of the stream.

Bytes of frames are as they came, except in messages that may hold credentials: those are rewritten (kproxy.output.rewriting).
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from kproxy.session.events import TlsFacts

SIZE = 4  # bytes before a piece
MOST_PIECE = 1 << 30  # bytes: a piece has at most one frame more than SEND of page_feed.py


class Side(Struct, frozen=True, array_like=True, gc=False):
    """The request or response of an exchange (kproxy.session.Frame). Frames that need more fields have *unusual*."""

    data: bytes
    started_at: int
    ended_at: int
    sent_at: int
    body_start: int
    body_version: int
    unusual: "Unusual | None" = None


class Unusual(Struct, frozen=True, array_like=True, gc=False):
    """Fields of frames that cannot be read, are cut, do not have the newest layout, or were changed by filters."""

    is_read: bool  # whether its message is known
    layout: str | None
    assumed_version: int | None
    error: str | None
    cut: int
    unread: bool
    size: int
    trailing: int
    note: str  # what was withheld, in words
    edits: list[str] | None = None


class Shown(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """An exchange."""

    connection: int
    at: int
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    client_id: str | None
    request: Side | None
    response: Side | None
    named: bool  # whether there are topic ids in it
    expects_response: bool
    unanswered: str | None
    undecoded: str | None


class Begun(Struct, frozen=True, array_like=True, tag=1):
    """A connection was opened, or more is known of it now."""

    connection: int
    at: int
    client: str
    broker: str
    cluster: str
    software_name: str | None = None
    software_version: str | None = None
    sasl_mechanism: str | None = None
    closed: str | None = None  # who ended it, in words
    user_name: str | None = None  # who logged in by SASL, maybe before the feed began
    tls: TlsFacts | None = None  # a client's TLS, which ends at kproxy


class Seen(Struct, frozen=True, array_like=True, tag=2):
    """An event that is not an exchange: a gap, a bad frame, bytes that are not Kafka."""

    connection: int
    at: int
    kind: str  # the name of its class
    size: int | None = None
    skipped: int = 0
    foreign: str = ""  # of NotKafka: its kind


class Ended(Struct, frozen=True, array_like=True, tag=3):
    """A side of a connection, or all of it, has ended (kproxy.pipeline.output.End)."""

    connection: int
    at: int
    side: str | None
    reason: str | None


class Topics(Struct, frozen=True, array_like=True, tag=4):
    """Names of topics by their ids."""

    cluster: str
    names: dict[str, str]


class Tally(Struct, frozen=True, array_like=True, tag=5):
    """Exchanges since the feed began."""

    seen: int
    dropped: int  # how many of them were not sent
    missed: int  # others, which the analyzer could not read, as it was behind or its rings overflowed
    share: float  # of the exchanges that are sent now
    at: int = 0  # ns: when the newest of them was complete; 0 before the first


Record = Shown | Begun | Seen | Ended | Topics | Tally
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Record]).decode


class Pieces:
    """Cuts a stream into pieces. Raises ValueError for a piece that no analyzer sends."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: "bytes | memoryview") -> Iterator[list[Record]]:
        """Yield the records of each piece that these bytes complete."""
        held = self._held
        held += data
        at = 0
        while len(held) - at >= SIZE:
            size = int.from_bytes(held[at : at + SIZE], "big")
            if size > MOST_PIECE:
                raise ValueError(f"a piece of {size:,} bytes")
            if len(held) - at - SIZE < size:
                break
            piece = bytes(memoryview(held)[at + SIZE : at + SIZE + size])
            at += SIZE + size
            try:
                yield decode(piece)
            except msgspec.MsgspecError as error:
                raise ValueError(str(error)) from None
        del held[:at]
