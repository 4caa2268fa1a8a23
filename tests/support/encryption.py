"""A second implementation of the format of encrypted values, from the text in kproxy.encryption, and a key service in memory."""

import os
import struct
from typing import Any

import zstandard
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

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
    rest = bytes([len(name)]) + name.encode() + bytes([len(topic)]) + topic.encode()
    rest += struct.pack(">H", len(data_key.wrapped)) + data_key.wrapped
    envelope = struct.pack(">4sBBH", b"\xc3KPE", 1, codec << 4 | (0 if header is None else 2), 8 + len(rest)) + rest
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
