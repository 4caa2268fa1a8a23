"""The format of encrypted fields, to the byte: see the package. Nothing here has a key."""

from typing import NamedTuple

from kproxy.encryption.services.contract import MOST_NAME, MOST_WRAPPED
from kproxy.errors import KproxyError
from kproxy.protocol.records.compression import Codec

MARKER = b"\xc3KPE"
VERSION = 1
VALUE, KEY, HEADER, FIELD, BYTES_FIELD = range(
    5
)  # what is encrypted: the lower four bits of its byte; the upper ones are the codec
PARTS = {
    VALUE: "a value",
    KEY: "a record key",
    HEADER: "the value of a header",
    FIELD: "a field of text",
    BYTES_FIELD: "a field of bytes",
}
NEVER_PACKED = (KEY, FIELD, BYTES_FIELD)
CODECS = (Codec.NONE, Codec.ZSTD)
SIZE_AT, FIXED = 6, 8  # where the size of the envelope is, and the names begin
NONCE, TAG = 12, 16  # TAG: also the size of the synthetic IV of a record key, which has no nonce


class Damaged(KproxyError):
    """An encrypted field that is not as it was written; the message is one sentence without its contents."""


class Envelope(NamedTuple):
    """What stands before the nonce of an encrypted field: all that it takes to have its data key unwrapped."""

    key_name: str
    topic: str
    wrapped: bytes
    codec: int = Codec.NONE  # of the bytes that are encrypted
    part: int = VALUE

    def encoded(self) -> bytes:
        """Return its bytes. Raises ValueError if a part of it is too long."""
        key_name, topic = self.key_name.encode(), self.topic.encode()
        if len(key_name) > MOST_NAME or len(topic) > MOST_NAME:
            raise ValueError(f"names of keys and topics have at most {MOST_NAME} bytes")
        if len(self.wrapped) > MOST_WRAPPED:
            raise ValueError(f"a wrapped data key has at most {MOST_WRAPPED:,} bytes")
        names = b"".join((bytes((len(key_name),)), key_name, bytes((len(topic),)), topic))
        rest = b"".join((names, len(self.wrapped).to_bytes(2, "big"), self.wrapped))
        return b"".join(
            (MARKER, bytes((VERSION, self.codec << 4 | self.part)), (FIXED + len(rest)).to_bytes(2, "big"), rest)
        )


def split(data: bytes) -> bytes | None:
    """Return the envelope of an encrypted field, as it stands; None for a plain field. Raises Damaged."""
    if not data.startswith(MARKER):
        return None
    size = int.from_bytes(data[SIZE_AT:FIXED], "big")
    if size < FIXED or len(data) < size + added_behind(data[5] & 15):
        raise Damaged("it is shorter than it says")
    return data[:size]


def added_behind(part: int) -> int:
    """Return by how many bytes an encrypted field of *part* is larger than its envelope and its plain bytes."""
    return TAG if part == KEY else NONCE + TAG


def place_of(name: bytes | None) -> bytes:
    """Return what the associated data has of the name of a header, or of the path of a field; nothing for a value."""
    return b"" if name is None else len(name).to_bytes(4, "big") + name


def has_lost_marker(data: bytes, part: int = VALUE) -> bool:
    """Return whether a field that begins with another marker is an envelope in all else: it has names and fitting sizes."""
    if data[4:5] != b"\1":  # VERSION: most plain fields end here
        return False
    size = int.from_bytes(data[SIZE_AT:FIXED], "big")
    if not FIXED < size <= len(data) - added_behind(part):
        return False
    try:
        envelope = read_envelope(data[:size], part)
    except (Damaged, IndexError):
        return False
    return bool(envelope.key_name and envelope.topic and envelope.wrapped)


def envelope_of(data: bytes, part: int = VALUE) -> bytes | None:
    """Return the envelope of an encrypted field, as it stands; empty for a damaged field, None for a plain one."""
    try:
        encoded = split(data)
        if encoded is None:
            return b"" if has_lost_marker(data, part) else None
        read_envelope(encoded, part)
    except Damaged:
        return b""
    return encoded


def read_envelope(encoded: bytes, part: int = VALUE) -> Envelope:
    """Return what the envelope of a value says, or that of another part. Raises Damaged."""
    if encoded[4] != VERSION:
        raise Damaged(f"its format has version {encoded[4]}, and only version {VERSION} is known")
    codec, found = divmod(encoded[5], 16)
    if found != part:
        raise Damaged(f"it is part {found} of a record, where {PARTS[part]} (part {part}) was expected")
    if codec not in CODECS or (codec and part in NEVER_PACKED):
        known = f"{PARTS[part]} is not compressed" if part in NEVER_PACKED else f"only zstd ({Codec.ZSTD}) is known"
        raise Damaged(f"it is compressed by codec {codec}, and {known}")
    key_name, at = _sized(encoded, FIXED, 1)
    topic, at = _sized(encoded, at, 1)
    wrapped, at = _sized(encoded, at, 2)
    if at != len(encoded):
        raise Damaged("its envelope is longer than what is in it")
    try:
        return Envelope(key_name.decode(), topic.decode(), wrapped, codec, part)
    except UnicodeDecodeError:
        raise Damaged("the name of its key or topic is no UTF-8") from None


def _sized(encoded: bytes, at: int, width: int) -> tuple[bytes, int]:
    start = at + width
    end = start + int.from_bytes(encoded[at:start], "big")
    if end > len(encoded):
        raise Damaged("its envelope is shorter than what is in it")
    return encoded[start:end], end
