"""A second implementation of the format of encrypted fields, from the text in kproxy.encryption, and a key service in memory."""

import base64
import hmac
import os
import struct
from typing import Any

import zstandard
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, GCM
from cryptography.hazmat.primitives.cmac import CMAC

from kproxy.encryption.services.contract import DataKey, KeyServiceError
from kproxy.options import Options as NoOptions


class GivenKeys:
    """A key service; ``error`` is raised by the next calls, ``calls`` has the names of keys that were used."""

    def __init__(self) -> None:
        self.plain: dict[tuple[str, bytes], bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.error: KeyServiceError | None = None

    def new_data_key(self, key_name: str) -> DataKey:
        self._call("new", key_name)
        made = DataKey(os.urandom(32), os.urandom(60))
        self.plain[key_name, made.wrapped] = made.plain
        return made

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        self._call("unwrap", key_name)
        if (key_name, wrapped) not in self.plain:
            raise KeyServiceError("the key has not wrapped this data key")
        return self.plain[key_name, wrapped]

    def close(self) -> None:
        self.plain.clear()

    def _call(self, what: str, key_name: str) -> None:
        self.calls.append((what, key_name))
        if self.error is not None:
            raise self.error


def parts_of(data: bytes) -> dict[str, Any]:
    """The parts of an encrypted value."""
    marker, version, kind, size = struct.unpack_from(">4sBBH", data)
    at, names = 8, []
    for _ in range(2):
        names.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    (wrapped_size,) = struct.unpack_from(">H", data, at)
    wrapped = data[at + 2 : at + 2 + wrapped_size]
    codec, part = kind >> 4, kind & 15
    assert (marker, version, size) == (b"\xc3KPE", 1, at + 2 + wrapped_size)
    assert codec in (0, 4)
    nonce, text, tag = data[size : size + 12], data[size + 12 : -16], data[-16:]
    if part == 1:
        nonce, text, tag = b"", data[size + 16 :], data[size : size + 16]
    return {"envelope": data[:size], "key": names[0], "topic": names[1], "wrapped": wrapped} | {
        "nonce": nonce,
        "text": text,
        "tag": tag,
        "codec": codec,
        "part": part,
    }


def bound(envelope: bytes, key: bytes | None, header: bytes | None) -> bytes:
    """The associated data."""
    named = b"" if header is None else struct.pack(">I", len(header)) + header
    return envelope + named + (b"\0" if key is None else b"\1" + key)


def decrypted(data: bytes, data_key: bytes, key: bytes | None, header: bytes | None = None) -> bytes:
    """The plain value, of a record or of its header. Raises InvalidTag."""
    parts = parts_of(data)
    assert parts["part"] == (0 if header is None else 2)
    cipher = Cipher(AES(data_key), GCM(parts["nonce"], parts["tag"])).decryptor()
    cipher.authenticate_additional_data(bound(parts["envelope"], key, header))
    plain = cipher.update(parts["text"]) + cipher.finalize()
    return zstandard.decompress(plain) if parts["codec"] else plain


def siv(key: bytes, bound: bytes, plain: bytes) -> tuple[bytes, bytes]:
    """The synthetic IV and the encrypted bytes (RFC 5297) with one string of associated data."""

    def cmac(data: bytes) -> bytes:
        made = CMAC(AES(key[: len(key) // 2]))
        made.update(data)
        return made.finalize()

    def doubled(block: bytes) -> bytes:
        number = int.from_bytes(block, "big") << 1
        return ((number & (1 << 128) - 1) ^ (0x87 if number >> 128 else 0)).to_bytes(16, "big")

    def xor(one: bytes, other: bytes) -> bytes:
        return bytes(a ^ b for a, b in zip(one, other, strict=True))

    mixed = xor(doubled(cmac(bytes(16))), cmac(bound))
    if len(plain) >= 16:
        tag = cmac(plain[:-16] + xor(plain[-16:], mixed))
    else:
        tag = cmac(xor(doubled(mixed), plain + b"\x80" + bytes(15 - len(plain))))
    start = int.from_bytes(tag, "big") & ~(1 << 63 | 1 << 31)
    counting = Cipher(AES(key[len(key) // 2 :]), CTR(start.to_bytes(16, "big"))).encryptor()
    return tag, counting.update(plain) + counting.finalize()


def key_for_record_keys(data_key: bytes, topic: str) -> bytes:
    """The 64 bytes of HKDF-SHA-512 (RFC 5869), whose output has one block."""
    extracted = hmac.digest(bytes(64), data_key, "sha512")
    return hmac.digest(extracted, b"kproxy record keys of " + topic.encode() + b"\1", "sha512")


def encrypted_key(plain: bytes, data_key: DataKey, *, name: str, topic: str) -> bytes:
    """An encrypted record key."""
    envelope = envelope_of(data_key.wrapped, name, topic, 1)
    return envelope + b"".join(siv(key_for_record_keys(data_key.plain, topic), envelope, plain))


def decrypted_key(data: bytes, data_key: bytes) -> bytes:
    """The plain record key. Raises AssertionError if it was changed."""
    parts = parts_of(data)
    assert (parts["part"], parts["codec"]) == (1, 0)
    key = key_for_record_keys(data_key, parts["topic"])
    start = int.from_bytes(parts["tag"], "big") & ~(1 << 63 | 1 << 31)
    plain = Cipher(AES(key[32:]), CTR(start.to_bytes(16, "big"))).decryptor().update(parts["text"])
    assert siv(key, parts["envelope"], plain) == (parts["tag"], parts["text"])
    return plain


def envelope_of(wrapped: bytes, name: str, topic: str, kind: int) -> bytes:
    rest = bytes([len(name)]) + name.encode() + bytes([len(topic)]) + topic.encode()
    rest += struct.pack(">H", len(wrapped)) + wrapped
    return struct.pack(">4sBBH", b"\xc3KPE", 1, kind, 8 + len(rest)) + rest


def encrypted(
    value: bytes,
    data_key: DataKey,
    *,
    key: bytes | None,
    name: str,
    topic: str,
    nonce: bytes,
    codec: int = 0,
    header: bytes | None = None,
) -> bytes:
    """An encrypted value, of a record or of its header; *value*: as *codec* left it."""
    envelope = envelope_of(data_key.wrapped, name, topic, codec << 4 | (0 if header is None else 2))
    cipher = Cipher(AES(data_key.plain), GCM(nonce)).encryptor()
    cipher.authenticate_additional_data(bound(envelope, key, header))
    return envelope + nonce + cipher.update(value) + cipher.finalize() + cipher.tag


class GivenService:
    """GivenKeys as a key service that a configuration can name; ``GivenService.keys`` is the one of a test."""

    class Options(NoOptions, frozen=True):
        """None."""

    keys = GivenKeys()

    def __new__(cls, options: Any) -> Any:
        return cls.keys


def decrypted_field(field: bytes, data_key: bytes, key: bytes | None, path: str, *, is_text: bool = True) -> bytes:
    """The plain text or bytes. Raises InvalidTag."""
    parts = parts_of(base64.b64decode(field, validate=True) if is_text else field)
    assert (parts["part"], parts["codec"]) == (3 if is_text else 4, 0)
    cipher = Cipher(AES(data_key), GCM(parts["nonce"], parts["tag"])).decryptor()
    cipher.authenticate_additional_data(bound(parts["envelope"], key, path.encode()))
    return cipher.update(parts["text"]) + cipher.finalize()


def encrypted_field(
    plain: bytes, data_key: DataKey, *, key: bytes | None, path: str, name: str, topic: str, is_text: bool = True
) -> bytes:
    """A field of a value, encrypted."""
    envelope = envelope_of(data_key.wrapped, name, topic, 3 if is_text else 4)
    cipher = Cipher(AES(data_key.plain), GCM(bytes(12))).encryptor()
    cipher.authenticate_additional_data(bound(envelope, key, path.encode()))
    sealed = envelope + bytes(12) + cipher.update(plain) + cipher.finalize() + cipher.tag
    return base64.b64encode(sealed) if is_text else sealed
