"""What is known of a connection's TLS: filled in by the reader of the handshake, part of the Connection."""

from msgspec import Struct, field


class TlsTraffic(Struct):
    """Counts of one direction, in TLS records."""

    records: int = 0
    wire_size: int = 0  # bytes, the records' headers included
    plain_size: int = 0  # bytes of application data decrypted
    not_decrypted: int = 0  # records that were encrypted and could not be read
    lost: int = 0  # records known to be missing


class TlsFacts(Struct):
    """What may be shown of a connection's TLS: no secret and no plaintext is in it."""

    version: str | None = None  # "TLS 1.3"; None until the server chose
    offered_versions: list[str] = field(default_factory=list)
    cipher_suite: str | None = None  # IANA's name
    server_name: str | None = None  # SNI: the name of the server the client connects to
    offered_alpn: list[str] = field(default_factory=list)
    alpn: str | None = None
    resumed: bool = False  # by session id, ticket or pre-shared key: no certificates then
    hello_retry: bool = False
    early_data: str | None = None  # "accepted", "rejected", or "offered" where that is unknown
    client_certificate_requested: bool = False
    client_certificate: str | None = None  # its subject (RFC 4514); "" for none although asked
    server_certificate: str | None = None
    key_updates: int = 0
    renegotiations: int = 0
    alerts: list[str] = field(default_factory=list)  # "client: fatal unknown_ca"; at most 8
    decrypted: bool = False  # whether application data was read
    missing: list[str] = field(default_factory=list)  # why not: what the key log lacks, or what kproxy does not know
    problems: list[str] = field(default_factory=list)  # what was damaged or missing on the way; at most 16
    client_hello_at: int | None = None  # ns
    server_hello_at: int | None = None
    established_at: int | None = None  # when both Finished were seen; None where that cannot be seen
    requests: TlsTraffic = field(default_factory=TlsTraffic)  # client to broker
    responses: TlsTraffic = field(default_factory=TlsTraffic)
