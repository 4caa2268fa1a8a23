"""Openers: decrypt one record with given keys and sequence number.

All ciphers here authenticate: a record opens only with the keys and the sequence number it was sent with.
They are from the ``cryptography`` package.
"""

import hmac
from typing import Protocol

from kproxy.capture.tls.records import Record
from kproxy.capture.tls.schedule import Keys
from kproxy.capture.tls.suites import CipherSuite, Kind
from kproxy.errors import UsageError

TAG_SIZE = 16
EXPLICIT_NONCE_SIZE = 8
AES_BLOCK = 16
CANNOT_DECRYPT = "TLS can be decrypted only with the Python package cryptography: pip install cryptography"


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
    aead = _aead(keys.key, suite)
    return _Gcm12(aead, keys.iv) if suite.kind is Kind.GCM else _Chacha12(aead, keys.iv)


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


class _Gcm12:
    """AES-GCM in TLS 1.2 (RFC 5288): the nonce is a salt from the key block and the first bytes of the record."""

    __slots__ = ("_aead", "_salt")

    def __init__(self, aead: _Aead, salt: bytes) -> None:
        self._aead = aead
        self._salt = salt

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        body = record.body
        size = len(body) - EXPLICIT_NONCE_SIZE - TAG_SIZE
        if size < 0:
            return None
        nonce = self._salt + body[:EXPLICIT_NONCE_SIZE]
        data = _opened(self._aead, nonce, body[EXPLICIT_NONCE_SIZE:], _associated(record, sequence, size))
        return None if data is None else (record.content_type, data)

    def counter(self, record: Record, /) -> int | None:
        return int.from_bytes(record.body[:EXPLICIT_NONCE_SIZE], "big")


class _Chacha12:
    """ChaCha20-Poly1305 in TLS 1.2 (RFC 7905)."""

    __slots__ = ("_aead", "_iv")

    def __init__(self, aead: _Aead, iv: bytes) -> None:
        self._aead = aead
        self._iv = iv

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        size = len(record.body) - TAG_SIZE
        if size < 0:
            return None
        data = _opened(self._aead, _nonce(self._iv, sequence), record.body, _associated(record, sequence, size))
        return None if data is None else (record.content_type, data)

    def counter(self, record: Record, /) -> int | None:
        return None


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
