"""Openers: open one record with keys and a sequence number: the content type and plaintext, or None.

All of them are authenticated: a record opens only with the keys and the sequence number it was sent with.
The ciphers are those of the ``cryptography`` package (extra ``tls``).
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
    """Opens the records of one direction under one set of keys."""

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        """The content type and plaintext of the record with that sequence number; None when it is not that."""

    def counter(self, record: Record, /) -> int | None:
        """The number on the record that mostly counts like the sequence number, where there is one."""


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...


def check_available() -> None:
    """Raise UsageError, in a sentence, when the ``cryptography`` package is missing."""
    try:
        import cryptography  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(CANNOT_DECRYPT) from error


def opener_13(keys: Keys, suite: CipherSuite) -> Opener:
    """For the records of TLS 1.3. Raises UsageError without ``cryptography``."""
    return _Aead13(_aead(keys.key, suite), keys.iv)


def opener_12(keys: Keys, suite: CipherSuite, *, encrypt_then_mac: bool) -> Opener:
    """For the records of TLS 1.2. Raises UsageError without ``cryptography``."""
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
    """The sequence number, xored to the IV's end (RFC 8446 section 5.3, RFC 7905 section 2)."""
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")


def _associated(record: Record, sequence: int, size: int) -> bytes:
    """What TLS 1.2 authenticates besides the data (RFC 5246 section 6.2.3.3)."""
    return sequence.to_bytes(8, "big") + record.header[:3] + size.to_bytes(2, "big")


class _Aead13:
    """RFC 8446 section 5.2: the real content type is the last byte that is not zero."""

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
    """RFC 5288: salt from the key block, the rest of the nonce at the record's beginning."""

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
    """RFC 7905."""

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
        """The plaintext with its padding; None when the size is not one of whole blocks."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

        if len(data) < 2 * AES_BLOCK or len(data) % AES_BLOCK:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(data[:AES_BLOCK])).decryptor()
        return decryptor.update(data[AES_BLOCK:]) + decryptor.finalize()

    def _right(self, record: Record, sequence: int, data: bytes, mac: bytes) -> bool:
        ours = hmac.digest(self._mac_key, _associated(record, sequence, len(data)) + data, self._mac)
        return hmac.compare_digest(ours, mac)


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
    """RFC 7366: the MAC is that of what was encrypted, the IV included."""

    __slots__ = ()

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        encrypted, mac = record.body[: -self._mac_size], record.body[-self._mac_size :]
        if not self._right(record, sequence, encrypted, mac):
            return None
        plain = self._decrypt(encrypted)
        data = None if plain is None else _unpadded(plain)
        return None if data is None else (record.content_type, data)


def _unpadded(plain: bytes) -> bytes | None:
    """Remove the padding: each of its bytes is its size minus one."""
    size = plain[-1] + 1
    if size > len(plain) or plain[-size:] != plain[-1:] * size:
        return None
    return plain[:-size]
