"""The events of a session other than exchanges, and the Connection that all its events share, with the facts about its TLS.

To add an event: define a class here, export it from kproxy.session, create it in session.pyx, and handle it in every output
(kproxy.output: text/lines.py, jsonl.py with its reader from_jsonl.py, tables, packets).
"""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from kproxy.protocol import Direction
from kproxy.session.endings import Cut
from kproxy.session.exchanges import Event


class TlsTraffic(Struct):
    """Counts for the TLS records of one direction."""

    records: int = 0
    wire_size: int = 0  # bytes, including the records' headers
    plain_size: int = 0  # bytes of application data decrypted
    not_decrypted: int = 0  # encrypted records that could not be read
    lost: int = 0  # records known to be missing


class TlsFacts(Struct):
    """Facts about a connection's TLS that may be shown: they contain no secret and no plaintext."""

    version: str | None = None  # "TLS 1.3"; None until the server chose
    offered_versions: list[str] = field(default_factory=list)
    cipher_suite: str | None = None  # IANA's name
    server_name: str | None = None  # SNI: the name of the server the client connects to
    offered_alpn: list[str] = field(default_factory=list)
    alpn: str | None = None
    resumed: bool = False  # by session id, ticket or pre-shared key; then there are no certificates
    hello_retry: bool = False
    early_data: str | None = None  # "accepted", "rejected", or "offered" if the outcome is unknown
    client_certificate_requested: bool = False
    client_certificate: str | None = None  # its subject (RFC 4514); "": requested but not sent
    server_certificate: str | None = None
    key_updates: int = 0
    renegotiations: int = 0
    alerts: list[str] = field(default_factory=list)  # "client: fatal unknown_ca"; at most 8
    decrypted: bool = False  # whether application data was read
    missing: list[str] = field(default_factory=list)  # why not: keys that the key log lacks, or features kproxy lacks
    problems: list[str] = field(default_factory=list)  # damaged or missing records and messages; at most 16
    client_hello_at: int | None = None  # ns
    server_hello_at: int | None = None
    established_at: int | None = None  # ns: when both Finished were seen; None if that cannot be seen
    requests: TlsTraffic = field(default_factory=TlsTraffic)  # client to broker
    responses: TlsTraffic = field(default_factory=TlsTraffic)


class TcpFacts(Struct):
    """What TCP itself said about a connection: its beginning, and who ended it first. Times are ns since the epoch."""

    syn_at: int | None = None  # the client's first SYN
    last_syn_at: int | None = None
    syns: int = 0  # its SYNs: more than one if the first were not answered
    syn_ack_at: int | None = None  # the broker's SYN-ACK
    closed_by: str | None = None  # client or broker
    closed_at: int | None = None  # its FIN or RST


class Connection(Struct):
    """What is known about one TCP connection; shared by all its events and updated as the session learns more."""

    number: int
    client: str  # "address:port"
    broker: str
    client_software_name: str | None = None  # ApiVersions request v3+ (KIP-511)
    client_software_version: str | None = None
    sasl_mechanism: str | None = None
    user_name: str | None = (
        None  # who logged in to kproxy; else of PLAIN or SCRAM in SaslAuthenticate, successful or not
    )
    tls: TlsFacts | None = None  # None: not encrypted
    tcp: TcpFacts | None = None  # connections of a capture
    closed: str | None = None  # who ended it first, in words (endings.who_closed); None: no end was seen so far
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
