"""What a session says: frames, exchanges, and the things that are neither."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import Direction, Message, RequestHeader, ResponseHeader
from kproxy.session.fetch_session import FetchSession, FetchSessions
from kproxy.session.tls_facts import TlsFacts

@dataclass
class Connection:
    """What is known of one TCP connection; shared by all its events and filled in as the session learns."""

    number: int
    client: str  # "address:port"
    broker: str
    client_software_name: str | None = None  # ApiVersions request v3+ (KIP-511)
    client_software_version: str | None = None
    sasl_mechanism: str | None = None
    tls: TlsFacts | None = None  # None: in the clear

@dataclass
class Frame:
    """One frame: header read, body checked by a walk but not decoded; it owns its bytes."""

    data: bytes  # what followed the size field
    started_at: int  # ns: when its first byte came
    ended_at: int  # ns: when its last byte came
    header: RequestHeader | ResponseHeader | None = None
    body_start: int = 0
    message: Message | None = None  # None: nothing knows how to read the body
    body_version: int = 0  # the version the body is laid out as; differs from api_version for an ApiVersions fallback
    layout: str | None = None  # release whose layout was used, when it is not the newest (a version changed in place)
    assumed_version: int | None = None  # the newest known version whose layout fitted a version above the facts
    error: DecodeError | None = None  # why the body cannot be read
    cut: bool = False  # bytes at its end are missing in the capture
    unread: bool = False  # an ApiVersions request of whose body a broker that lacks the version reads nothing (KIP-511)

    @property
    def wire_size(self) -> int:
        """Bytes on the wire, the size field included."""

@dataclass
class Event:
    """Anything a session says."""

    connection: Connection
    at: int  # ns

@dataclass
class Exchange(Event):
    """A request and its response; either may be missing (acks=0, unanswered, the capture starts late)."""

    api_key: int | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    request: Frame | None = None
    response: Frame | None = None
    expects_response: bool = True  # False for Produce with acks=0
    unanswered: str | None = None  # why there is no response, in words
    undecoded: str | None = None  # why something in it could not be read
    topic_names: Mapping[str, str] = field(default_factory=dict)  # id (Kafka's text form) -> name, of the ids in it
    fetch_sessions: FetchSessions | None = None  # Fetch v7+: what the connection's fetch sessions hold (KIP-227)
    fetch_number: int = 0  # which of the connection's Fetch exchanges this is

    @property
    def fetch_session(self) -> FetchSession | None:
        """The whole of what a Fetch request asks for, partitions it left out as unchanged included.

        None for anything but a Fetch inside a fetch session, and for one so far back that it was forgotten.
        """

@dataclass
class SaslToken(Event):
    """A token of SaslHandshake v0 or of a client that starts with GSSAPI; its bytes are never shown."""

    direction: Direction = Direction.REQUEST
    size: int = 0
    parts: dict[str, Any] | None = None  # those that are no secret, as kproxy.protocol.embedded.sasl; None: opaque

@dataclass
class Gap(Event):
    """Bytes that are missing, or that came and could not be used because frame boundaries were not known."""

    direction: Direction = Direction.REQUEST
    size: int | None = None  # bytes missing; None: nobody knows; 0: none, only passed over
    skipped: int = 0  # bytes that came but had to be passed over until a plausible frame
    lost_frames: int = 0  # frames known to be hit

@dataclass
class NotKafka(Event):
    """The connection does not speak Kafka, or not in the clear; *what* is for people: which side, what to change."""

    kind: str = "unknown"  # as recognise.Foreign's; one-sided: only responses were captured, and cannot be read
    direction: Direction = Direction.REQUEST
    what: str = ""

@dataclass
class Tls(Event):
    """The connection was TLS, and what was said in it could be read; ``connection.tls`` has what is known of it."""

@dataclass
class BadFrame(Event):
    """A size field no peer would accept, or a frame that is none; what follows must be plausible to be trusted."""

    direction: Direction = Direction.REQUEST
    reason: str = ""
