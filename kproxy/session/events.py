"""The events of a session other than exchanges, and the Connection that all its events share.

To add an event: define a class here, export it from kproxy.session, create it in session.pyx, and handle it in every output
(kproxy.output: text/lines.py, jsonl.py with its reader from_jsonl.py, tables, packets).
"""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from kproxy.protocol import Direction
from kproxy.session.cut import Cut
from kproxy.session.exchanges import Event
from kproxy.session.tls_facts import TlsFacts


class Connection(Struct):
    """What is known about one TCP connection; shared by all its events and updated as the session learns more."""

    number: int
    client: str  # "address:port"
    broker: str
    client_software_name: str | None = None  # ApiVersions request v3+ (KIP-511)
    client_software_version: str | None = None
    sasl_mechanism: str | None = None
    user_name: str | None = None  # from PLAIN or SCRAM in SaslAuthenticate, whether the login succeeded or not
    tls: TlsFacts | None = None  # None: not encrypted
    closed: str | None = None  # who ended it first, in words (closing.who_closed); None: no end was seen so far
    cluster: str = ""  # live connections: the virtual cluster's name in the configuration
    tls_to_proxy: TlsFacts | None = None  # live connections: TLS between client and kproxy


@dataclass
class SaslToken(Event):
    """A raw SASL token, after SaslHandshake v0 or from a client that starts with GSSAPI. Its bytes are never shown."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    size: int = 0
    parts: dict[str, Any] | None = None  # its non-secret parts, from kproxy.protocol.embedded.sasl; None: opaque


@dataclass
class Gap(Event):
    """Bytes that are missing, or that arrived but were skipped because frame boundaries were unknown.

    If *cut* says that the connection or the capture ended, *skipped* counts the bytes of a last, incomplete size field.
    """

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    size: int | None = None  # bytes missing; None: unknown; 0: bytes were only skipped
    skipped: int = 0  # bytes skipped up to the next plausible frame
    lost_frames: int = 0  # frames known to be affected
    cut: Cut = Cut.MISSING  # why the bytes are missing
    in_frame: bool = False  # only the end of one frame is missing, which is reported as a cut frame

    @property
    def ends_in_size_field(self) -> bool:
        """Whether only the end of a size field is missing, as a reset or the end of the capture came inside it."""
        return self.cut in (Cut.RESET, Cut.CAPTURE_ENDED)


@dataclass
class NotKafka(Event):
    """The connection is not plain Kafka; *what* tells people which side is the cause and what to change."""

    connection: Connection
    at: int  # ns
    kind: str = "unknown"  # as in recognise.Foreign; or "one-sided": only possible responses were captured
    direction: Direction = Direction.REQUEST
    what: str = ""


@dataclass
class Tls(Event):
    """The connection used TLS and was decrypted; the facts are in ``connection.tls``."""

    connection: Connection
    at: int  # ns


@dataclass
class Note(Event):
    """Unusual behaviour of a peer that is neither an exchange nor a fault of the capture; *what* describes it."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    what: str = ""


@dataclass
class BadFrame(Event):
    """A size field that no peer would accept, or bytes that are not a frame; a hunt for the next frame follows."""

    connection: Connection
    at: int  # ns
    direction: Direction = Direction.REQUEST
    reason: str = ""
