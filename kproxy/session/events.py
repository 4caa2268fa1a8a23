"""What a session reports besides exchanges, and the connection that all events share.

To add an event: a class here, exported by kproxy.session; make it in session.pyx; then every output must say what it
does with it (kproxy.output: text/lines.py, jsonl.py with its reader from_jsonl.py, tables, packets).
"""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from kproxy.protocol import Direction
from kproxy.session.cut import Cut
from kproxy.session.exchanges import Event
from kproxy.session.tls_facts import TlsFacts


class Connection(Struct):
    """What is known of one TCP connection; shared by all its events and filled in as the session learns."""

    number: int
    client: str  # "address:port"
    broker: str
    client_software_name: str | None = None  # ApiVersions request v3+ (KIP-511)
    client_software_version: str | None = None
    sasl_mechanism: str | None = None
    user_name: str | None = None  # that PLAIN or SCRAM named in SaslAuthenticate, whether it was let in or not
    tls: TlsFacts | None = None  # None: in the clear
    closed: str | None = None  # who ended it first, in words (closing.who_closed); None: nobody, so far
    cluster: str = ""  # of a live connection: the virtual cluster's name in the configuration
    tls_to_proxy: TlsFacts | None = None  # of a live connection: the client's TLS, which ends at kproxy


@dataclass
class SaslToken(Event):
    """A raw token: after SaslHandshake v0, or of a client that starts with GSSAPI. Its bytes are never shown."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    size: int = 0
    parts: dict[str, Any] | None = None  # those that are no secret, as kproxy.protocol.embedded.sasl; None: opaque


@dataclass
class Gap(Event):
    """Bytes that are missing, or that came and could not be used because frame boundaries were not known.

    Where *cut* says that the connection or the capture ended, *skipped* bytes of a size field came, and no more of its frame.
    """

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    size: int | None = None  # bytes missing; None: unknown; 0: none, some were only skipped
    skipped: int = 0  # bytes that came but were skipped until a plausible frame
    lost_frames: int = 0  # frames known to be hit
    cut: Cut = Cut.MISSING  # why they are not here
    in_frame: bool = False  # they are the end of one frame, which is reported as a cut one: nothing else is lost

    @property
    def ends_in_size_field(self) -> bool:
        """Whether nothing is missing or skipped but the end of a size field, which was never sent or recorded."""
        return self.cut in (Cut.RESET, Cut.CAPTURE_ENDED)


@dataclass
class NotKafka(Event):
    """The connection does not speak Kafka, or not in the clear; *what* is for people: which side, what to change."""

    connection: Connection
    at: int  # ns
    kind: str = "unknown"  # as recognise.Foreign's; one-sided: only what may be responses was captured
    direction: Direction = Direction.REQUEST
    what: str = ""


@dataclass
class Tls(Event):
    """The connection was TLS, and its content could be read; ``connection.tls`` has what is known of it."""

    connection: Connection
    at: int  # ns


@dataclass
class Note(Event):
    """Something that a peer did, which is no exchange and no fault of the capture; *what* is for people."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    what: str = ""


@dataclass
class BadFrame(Event):
    """A size field no peer would accept, or a frame that is none; what follows must be plausible to be trusted."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    reason: str = ""
