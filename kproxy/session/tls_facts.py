"""Facts about a connection's TLS, filled in by the reader of the handshake; part of the Connection."""

from msgspec import Struct, field


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
