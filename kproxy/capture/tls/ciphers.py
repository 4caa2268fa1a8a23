"""Open one TLS record with given secrets: cipher suites and names by number, key schedules, decryption.

Numbers and names are those of IANA's "TLS Parameters"; the suites are those that Kafka's clients use. Keys come from TLS 1.3's
key schedule (RFC 8446 section 7, RFC 5869) or TLS 1.2's PRF (RFC 5246 section 5). All ciphers here authenticate: a record opens
only with the keys and the sequence number it was sent with. They are from the package ``cryptography``, which only this module
needs.
"""

import hashlib
import hmac
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from kproxy.errors import UsageError

Hash = Literal["sha256", "sha384"]


class Kind(Enum):
    """The kind of record protection."""

    GCM = "AES-GCM"
    CHACHA = "ChaCha20-Poly1305"
    CBC = "AES-CBC"


@dataclass(frozen=True, slots=True)
class CipherSuite:
    """A cipher suite that kproxy can decrypt; sizes in bytes."""

    name: str
    kind: Kind
    key_size: int
    hash: Hash  # of the key schedule or PRF
    mac: str = ""  # CBC: the hash of its HMAC
    tls13: bool = False

    @property
    def mac_size(self) -> int:
        """Size of the HMAC; 0 if the cipher itself authenticates."""
        return {"": 0, "sha1": 20, "sha256": 32, "sha384": 48}[self.mac]


_NAMES = """
002F TLS_RSA_WITH_AES_128_CBC_SHA
0032 TLS_DHE_DSS_WITH_AES_128_CBC_SHA
0033 TLS_DHE_RSA_WITH_AES_128_CBC_SHA
0035 TLS_RSA_WITH_AES_256_CBC_SHA
0038 TLS_DHE_DSS_WITH_AES_256_CBC_SHA
0039 TLS_DHE_RSA_WITH_AES_256_CBC_SHA
003C TLS_RSA_WITH_AES_128_CBC_SHA256
003D TLS_RSA_WITH_AES_256_CBC_SHA256
0040 TLS_DHE_DSS_WITH_AES_128_CBC_SHA256
0067 TLS_DHE_RSA_WITH_AES_128_CBC_SHA256
006A TLS_DHE_DSS_WITH_AES_256_CBC_SHA256
006B TLS_DHE_RSA_WITH_AES_256_CBC_SHA256
009C TLS_RSA_WITH_AES_128_GCM_SHA256
009D TLS_RSA_WITH_AES_256_GCM_SHA384
009E TLS_DHE_RSA_WITH_AES_128_GCM_SHA256
009F TLS_DHE_RSA_WITH_AES_256_GCM_SHA384
00A2 TLS_DHE_DSS_WITH_AES_128_GCM_SHA256
00A3 TLS_DHE_DSS_WITH_AES_256_GCM_SHA384
00A8 TLS_PSK_WITH_AES_128_GCM_SHA256
00A9 TLS_PSK_WITH_AES_256_GCM_SHA384
1301 TLS_AES_128_GCM_SHA256
1302 TLS_AES_256_GCM_SHA384
1303 TLS_CHACHA20_POLY1305_SHA256
C004 TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA
C005 TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA
C009 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
C00A TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA
C00E TLS_ECDH_RSA_WITH_AES_128_CBC_SHA
C00F TLS_ECDH_RSA_WITH_AES_256_CBC_SHA
C013 TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
C014 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA
C023 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256
C024 TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384
C025 TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA256
C026 TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA384
C027 TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256
C028 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384
C029 TLS_ECDH_RSA_WITH_AES_128_CBC_SHA256
C02A TLS_ECDH_RSA_WITH_AES_256_CBC_SHA384
C02B TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
C02C TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
C02D TLS_ECDH_ECDSA_WITH_AES_128_GCM_SHA256
C02E TLS_ECDH_ECDSA_WITH_AES_256_GCM_SHA384
C02F TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
C030 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
C031 TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256
C032 TLS_ECDH_RSA_WITH_AES_256_GCM_SHA384
CCA8 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
CCA9 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
CCAA TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256
CCAB TLS_PSK_WITH_CHACHA20_POLY1305_SHA256
"""


def _suite(name: str) -> CipherSuite:
    """Return the suite of that name, which says everything: TLS_(key exchange_WITH_)CIPHER_HASH."""
    kind = Kind.GCM if "_GCM_" in name else Kind.CBC if "_CBC_" in name else Kind.CHACHA
    last = name.rpartition("_")[2]  # for CBC the hash of the HMAC, else of the key schedule or PRF
    mac = {"SHA": "sha1"}.get(last, last.lower()) if kind is Kind.CBC else ""
    key_size = 16 if "AES_128" in name else 32
    return CipherSuite(name, kind, key_size, "sha384" if last == "SHA384" else "sha256", mac, "_WITH_" not in name)


SUITES: dict[int, CipherSuite] = {
    int(number, 16): _suite(name) for number, name in (line.split() for line in _NAMES.split("\n") if line)
}
NAMES_ONLY = {
    0x0001: "TLS_RSA_WITH_NULL_MD5",
    0x0002: "TLS_RSA_WITH_NULL_SHA",
    0x0005: "TLS_RSA_WITH_RC4_128_SHA",
    0x000A: "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    0x003B: "TLS_RSA_WITH_NULL_SHA256",
    0x00FF: "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
    0x1304: "TLS_AES_128_CCM_SHA256",
    0x1305: "TLS_AES_128_CCM_8_SHA256",
    0xC012: "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
}

TLS12, TLS13 = 0x0303, 0x0304
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}

ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


def suite_name(number: int) -> str:
    """Return IANA's name of a suite, or its number in hexadecimal."""
    suite = SUITES.get(number)
    return suite.name if suite is not None else NAMES_ONLY.get(number, f"0x{number:04X}")


def version_name(number: int) -> str:
    """Return the name of a version, as "TLS 1.3", or its number in hexadecimal."""
    return VERSIONS.get(number, f"0x{number:04X}")


def alert_name(number: int) -> str:
    """Return RFC 8446's name of an alert (section 6), or its number."""
    return ALERTS.get(number, f"alert {number}")


def is_grease(number: int) -> bool:
    """Return whether a value is a GREASE value, which peers must ignore (RFC 8701)."""
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF


IV_SIZE = 12
GCM_SALT_SIZE = 4


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The keys for the records of one direction; *mac* only for CBC."""

    key: bytes
    iv: bytes
    mac: bytes = b""


def expand_label(secret: bytes, label: bytes, size: int, name: str) -> bytes:
    """Return HKDF-Expand-Label with an empty context (RFC 8446 section 7.1); *name* is the hash function's."""
    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(full),)) + full + b"\0"
    out = block = b""
    counter = 1
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes((counter,)), name)
        out += block
        counter += 1
    return out[:size]


def keys_13(secret: bytes, suite: CipherSuite) -> Keys:
    """Return the traffic keys for a traffic secret (RFC 8446 section 7.3)."""
    key = expand_label(secret, b"key", suite.key_size, suite.hash)
    return Keys(key, expand_label(secret, b"iv", IV_SIZE, suite.hash))


def next_secret(secret: bytes, suite: CipherSuite) -> bytes:
    """Return the application traffic secret after a key update (RFC 8446 section 7.2)."""
    return expand_label(secret, b"traffic upd", hash_size(suite), suite.hash)


def hash_size(suite: CipherSuite) -> int:
    """Return the size of the suite's hash, which is also that of its secrets."""
    return hashlib.new(suite.hash).digest_size


def prf_12(secret: bytes, label: bytes, seed: bytes, size: int, name: str) -> bytes:
    """Return *size* bytes of TLS 1.2's P_hash (RFC 5246 section 5)."""
    seed = label + seed
    out, a = b"", seed
    while len(out) < size:
        a = hmac.digest(secret, a, name)
        out += hmac.digest(secret, a + seed, name)
    return out[:size]


def keys_12(master: bytes, client_random: bytes, server_random: bytes, suite: CipherSuite) -> tuple[Keys, Keys]:
    """Return the client's and the server's write keys (RFC 5246 section 6.3)."""
    # CBC suites carry the IV in the record; the key block has none (TLS 1.1 and later).
    iv_size = {Kind.GCM: GCM_SALT_SIZE, Kind.CHACHA: IV_SIZE, Kind.CBC: 0}[suite.kind]
    sizes = [suite.mac_size, suite.mac_size, suite.key_size, suite.key_size, iv_size, iv_size]
    block = prf_12(master, b"key expansion", server_random + client_random, sum(sizes), suite.hash)
    parts: list[bytes] = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    return Keys(parts[2], parts[4], parts[0]), Keys(parts[3], parts[5], parts[1])


HEADER_SIZE = 5
TAG_SIZE = 16
EXPLICIT_NONCE_SIZE = 8
AES_BLOCK = 16
CANNOT_DECRYPT = "TLS can be decrypted only with the Python package cryptography: pip install cryptography"


@dataclass(frozen=True, slots=True)
class Record:
    """A record as received; *header* is its first five bytes."""

    header: bytes
    body: bytes

    @property
    def content_type(self) -> int:
        """The content type on the wire; in TLS 1.3 it is APPLICATION_DATA for everything encrypted."""
        return self.header[0]

    @property
    def wire_size(self) -> int:
        """Bytes, including the header."""
        return HEADER_SIZE + len(self.body)


class Opener(Protocol):
    """Decrypts the records of one direction with one set of keys."""

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        """Return the content type and plaintext of a record; None if keys or sequence number do not fit."""

    def counter(self, record: Record, /) -> int | None:
        """Return the record's explicit nonce as a number, which usually counts like the sequence number; None without one."""


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...


def check_available() -> None:
    """Raise UsageError if the ``cryptography`` package is missing."""
    try:
        import cryptography  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(CANNOT_DECRYPT) from error


def opener_13(keys: Keys, suite: CipherSuite) -> Opener:
    """Return the Opener for TLS 1.3. Raises UsageError without ``cryptography``."""
    return _Aead13(_aead(keys.key, suite), keys.iv)


def opener_12(keys: Keys, suite: CipherSuite, *, encrypt_then_mac: bool) -> Opener:
    """Return the Opener for TLS 1.2. Raises UsageError without ``cryptography``."""
    if suite.kind is Kind.CBC:
        check_available()
        return _EncryptThenMac(keys, suite) if encrypt_then_mac else _MacThenEncrypt(keys, suite)
    return _Aead12(_aead(keys.key, suite), keys.iv, EXPLICIT_NONCE_SIZE if suite.kind is Kind.GCM else 0)


def _aead(key: bytes, suite: CipherSuite) -> _Aead:
    check_available()
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305  # noqa: PLC0415

    return AESGCM(key) if suite.kind is Kind.GCM else ChaCha20Poly1305(key)


def _opened(aead: _Aead, nonce: bytes, data: bytes, associated: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415

    try:
        return aead.decrypt(nonce, data, associated)
    except InvalidTag:
        return None


def _nonce(iv: bytes, sequence: int) -> bytes:
    """Return the IV with the sequence number xored into its end (RFC 8446 section 5.3, RFC 7905 section 2)."""
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")


def _associated(record: Record, sequence: int, size: int) -> bytes:
    """Return what TLS 1.2 authenticates in addition to the data (RFC 5246 section 6.2.3.3)."""
    return sequence.to_bytes(8, "big") + record.header[:3] + size.to_bytes(2, "big")


class _Aead13:
    """TLS 1.3 (RFC 8446 section 5.2): the real content type is the last nonzero byte."""

    __slots__ = ("_aead", "_iv")

    def __init__(self, aead: _Aead, iv: bytes) -> None:
        self._aead = aead
        self._iv = iv

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        if len(record.body) <= TAG_SIZE:
            return None
        inner = _opened(self._aead, _nonce(self._iv, sequence), record.body, record.header)
        if inner is None:
            return None
        inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else (0, b"")

    def counter(self, record: Record, /) -> int | None:
        return None


class _Aead12:
    """AES-GCM (RFC 5288) and ChaCha20-Poly1305 (RFC 7905) in TLS 1.2.

    The nonce of AES-GCM is a salt from the key block and the first bytes of the record, that of ChaCha20 as in TLS 1.3.
    """

    __slots__ = ("_aead", "_explicit", "_iv")

    def __init__(self, aead: _Aead, iv: bytes, explicit: int) -> None:
        self._aead = aead
        self._iv = iv
        self._explicit = explicit  # bytes of the nonce in the record

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        sent, sealed = record.body[: self._explicit], record.body[self._explicit :]
        size = len(sealed) - TAG_SIZE
        if size < 0:
            return None
        nonce = self._iv + sent if self._explicit else _nonce(self._iv, sequence)
        data = _opened(self._aead, nonce, sealed, _associated(record, sequence, size))
        return None if data is None else (record.content_type, data)

    def counter(self, record: Record, /) -> int | None:
        return int.from_bytes(record.body[: self._explicit], "big") if self._explicit else None


class _Cbc:
    """AES-CBC with an HMAC; its IV is the record's first block (RFC 5246 section 6.2.3.2)."""

    __slots__ = ("_key", "_mac", "_mac_key", "_mac_size")

    def __init__(self, keys: Keys, suite: CipherSuite) -> None:
        self._key = keys.key
        self._mac_key = keys.mac
        self._mac = suite.mac
        self._mac_size = suite.mac_size

    def counter(self, record: Record, /) -> int | None:
        return None

    def _decrypt(self, data: bytes) -> bytes | None:
        """Return the plaintext with its padding; None if the size is not a multiple of the block size."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

        if len(data) < 2 * AES_BLOCK or len(data) % AES_BLOCK:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(data[:AES_BLOCK])).decryptor()
        return decryptor.update(data[AES_BLOCK:]) + decryptor.finalize()

    def _right(self, record: Record, sequence: int, data: bytes, mac: bytes) -> bool:
        expected = hmac.digest(self._mac_key, _associated(record, sequence, len(data)) + data, self._mac)
        return hmac.compare_digest(expected, mac)


class _MacThenEncrypt(_Cbc):
    __slots__ = ()

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        plain = self._decrypt(record.body)
        data = None if plain is None else _unpadded(plain)
        if data is None or len(data) < self._mac_size:
            return None
        content, mac = data[: -self._mac_size], data[-self._mac_size :]
        return (record.content_type, content) if self._right(record, sequence, content, mac) else None


class _EncryptThenMac(_Cbc):
    """Encrypt-then-MAC (RFC 7366): the MAC covers the encrypted bytes, including the IV."""

    __slots__ = ()

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        encrypted, mac = record.body[: -self._mac_size], record.body[-self._mac_size :]
        if not self._right(record, sequence, encrypted, mac):
            return None
        plain = self._decrypt(encrypted)
        data = None if plain is None else _unpadded(plain)
        return None if data is None else (record.content_type, data)


def _unpadded(plain: bytes) -> bytes | None:
    """Return the bytes without padding, whose bytes all equal its size minus one; None if it is wrong."""
    size = plain[-1] + 1
    if size > len(plain) or plain[-size:] != plain[-1:] * size:
        return None
    return plain[:-size]
