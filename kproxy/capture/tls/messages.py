"""Read the fields of handshake messages that kproxy shows or needs (RFC 8446 section 4, RFC 5246 section 7.4).

No length in a message is trusted: ``Reader`` raises Malformed past the end, and ``read_*`` raise nothing else.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from kproxy.errors import Malformed

MAX_MESSAGE = 256 * 1024  # bytes; longer messages (certificate chains can be) are skipped
MAX_LISTED = 64  # suites, versions, protocols or certificates kept of one list
MAX_SHOWN = 255

# SHA-256 of "HelloRetryRequest" (RFC 8446 section 4.1.3)
HELLO_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


class MessageType(IntEnum):
    """The type of a handshake message."""

    HELLO_REQUEST = 0
    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    NEW_SESSION_TICKET = 4
    END_OF_EARLY_DATA = 5
    ENCRYPTED_EXTENSIONS = 8
    CERTIFICATE = 11
    CERTIFICATE_REQUEST = 13
    FINISHED = 20
    KEY_UPDATE = 24


class Extension(IntEnum):
    """The type of an extension in a hello message."""

    SERVER_NAME = 0
    ALPN = 16
    ENCRYPT_THEN_MAC = 22
    SESSION_TICKET = 35
    PRE_SHARED_KEY = 41
    EARLY_DATA = 42
    SUPPORTED_VERSIONS = 43


class Reader:
    """Reads numbers and length-prefixed bytes; never past the end."""

    __slots__ = ("_at", "_data", "_name")

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._at = 0
        self._name = name

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes. Raises Malformed."""
        end = self._at + size
        if end > len(self._data):
            left = len(self._data) - self._at
            raise Malformed(f"needs {size} bytes, {left} left", message=self._name, position=self._at)
        data = self._data[self._at : end]
        self._at = end
        return data

    def number(self, size: int) -> int:
        """Return a number of *size* bytes. Raises Malformed."""
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """Return the bytes after a length field of *size* bytes. Raises Malformed."""
        return self.take(self.number(size))

    def inside(self, size: int) -> "Reader":
        """Return a Reader of the bytes after a length field of *size* bytes. Raises Malformed."""
        return Reader(self.vector(size), self._name)


@dataclass(slots=True)
class ClientHello:
    """The client's offer."""

    random: bytes
    session_id: bytes
    version: int  # legacy_version
    cipher_suites: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)  # supported_versions, or legacy_version alone
    server_name: str | None = None
    alpn: list[str] = field(default_factory=list)
    ticket: bytes = b""
    early_data: bool = False


@dataclass(slots=True)
class ServerHello:
    """The server's choice."""

    random: bytes
    session_id: bytes
    version: int
    cipher_suite: int
    encrypt_then_mac: bool = False
    pre_shared_key: bool = False
    alpn: str | None = None

    @property
    def is_retry(self) -> bool:
        """Whether it is a HelloRetryRequest, after which the client must send another ClientHello."""
        return self.random == HELLO_RETRY


def read_client_hello(body: bytes) -> ClientHello:
    """Read a ClientHello. Raises Malformed."""
    reader = Reader(body, "ClientHello")
    version = reader.number(2)
    hello = ClientHello(reader.take(32), reader.vector(1), version)
    suites = reader.inside(2)
    while suites:
        hello.cipher_suites.append(suites.number(2))
    reader.vector(1)  # compression
    for kind, data in _extensions(reader, "ClientHello"):
        if kind == Extension.SERVER_NAME:
            hello.server_name = _server_name(data)
        elif kind == Extension.ALPN:
            hello.alpn = _protocols(data, "ClientHello")
        elif kind == Extension.SUPPORTED_VERSIONS:
            versions = Reader(data, "ClientHello").inside(1)
            while versions:
                hello.versions.append(versions.number(2))
        elif kind == Extension.SESSION_TICKET:
            hello.ticket = data
        elif kind == Extension.EARLY_DATA:
            hello.early_data = True
    hello.versions = hello.versions or [version]
    return hello


def read_server_hello(body: bytes) -> ServerHello:
    """Read a ServerHello or HelloRetryRequest. Raises Malformed."""
    reader = Reader(body, "ServerHello")
    version = reader.number(2)
    random, session_id, suite = reader.take(32), reader.vector(1), reader.number(2)
    reader.take(1)  # compression
    hello = ServerHello(random, session_id, version, suite)
    for kind, data in _extensions(reader, "ServerHello"):
        if kind == Extension.SUPPORTED_VERSIONS:
            hello.version = Reader(data, "ServerHello").number(2)
        elif kind == Extension.ENCRYPT_THEN_MAC:
            hello.encrypt_then_mac = True
        elif kind == Extension.PRE_SHARED_KEY:
            hello.pre_shared_key = True
        elif kind == Extension.ALPN:
            hello.alpn = next(iter(_protocols(data, "ServerHello")), None)
    return hello


def read_encrypted_extensions(body: bytes) -> tuple[str | None, bool]:
    """Return the protocol chosen by ALPN, and whether early data is accepted. Raises Malformed."""
    alpn, early = None, False
    for kind, data in _extensions(Reader(body, "EncryptedExtensions"), "EncryptedExtensions"):
        if kind == Extension.ALPN:
            alpn = next(iter(_protocols(data, "EncryptedExtensions")), None)
        elif kind == Extension.EARLY_DATA:
            early = True
    return alpn, early


def read_certificates(body: bytes, *, tls13: bool) -> list[bytes]:
    """Return the certificates of a Certificate message in DER, the sender's own first. Raises Malformed."""
    reader = Reader(body, "Certificate")
    if tls13:
        reader.vector(1)  # certificate_request_context
    entries = reader.inside(3)
    certificates: list[bytes] = []
    while entries and len(certificates) < MAX_LISTED:
        certificates.append(entries.vector(3))
        if tls13:
            entries.vector(2)  # the certificate's extensions
    return certificates


def read_ticket_12(body: bytes) -> bytes:
    """Return the ticket in a NewSessionTicket of TLS 1.2 (RFC 5077 section 3.3). Raises Malformed."""
    reader = Reader(body, "NewSessionTicket")
    reader.take(4)  # lifetime
    return reader.vector(2)


def _extensions(reader: Reader, name: str) -> Iterator[tuple[int, bytes]]:
    if not reader:
        return
    extensions = Reader(reader.vector(2), name)
    while extensions:
        yield extensions.number(2), extensions.vector(2)


def _server_name(data: bytes) -> str | None:
    names = Reader(data, "ClientHello").inside(2)
    while names:
        kind, name = names.number(1), names.vector(2)
        if kind == 0:
            return name[:MAX_SHOWN].decode("utf-8", "replace")
    return None


def _protocols(data: bytes, name: str) -> list[str]:
    protocols = Reader(data, name).inside(2)
    names: list[str] = []
    while protocols and len(names) < MAX_LISTED:
        names.append(protocols.vector(1).decode("utf-8", "replace"))
    return names


class MessageBuffer:
    """Extracts handshake messages from records: a message may span records, and a record may hold several."""

    def __init__(self) -> None:
        self.passed_over = 0  # messages longer than MAX_MESSAGE
        self._buffer = bytearray()
        self._skip = 0

    def push(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add a record's content; yield the type and body of every message that is now complete."""
        passed = min(self._skip, len(data))
        self._skip -= passed
        self._buffer += data[passed:]
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[1:4], "big")
            if size > MAX_MESSAGE:
                self.passed_over += 1
                self._skip = max(0, size + 4 - len(self._buffer))
                del self._buffer[: size + 4]
            elif len(self._buffer) < size + 4:
                return
            else:
                kind, body = self._buffer[0], bytes(self._buffer[4 : size + 4])
                del self._buffer[: size + 4]
                yield kind, body

    def clear(self) -> None:
        """Drop an incomplete message; the next bytes begin another one."""
        self._buffer.clear()
        self._skip = 0


MAX_CERTIFICATE = 64 * 1024
MAX_SUBJECT = 1024


def subject_of(certificate: bytes) -> str | None:
    """Return the subject of a certificate in DER, in the form of RFC 4514, as in Kafka's principals.

    None if it cannot be read or the package ``cryptography`` is missing; "" for a certificate without a subject.
    """
    try:
        from cryptography import x509  # noqa: PLC0415
    except ImportError:
        return None
    if len(certificate) > MAX_CERTIFICATE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings about strange serial numbers on standard error
            return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()[:MAX_SUBJECT]
    except Exception:  # the parser has many errors for what is not quite a certificate; none of them matters here
        return None
