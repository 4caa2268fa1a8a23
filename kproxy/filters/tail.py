"""The tail of a response: its fields from the first address on and its tag section, read alone and written to the same size.

The size of a response is in front of it, and already forwarded when its end is read. So the new tail has the same size: an
unknown tagged field, which clients skip (KIP-482), fills what is left.
"""

import functools

from msgspec.structs import replace

from kproxy.filters.addresses import layout_of, tail_start, untagged
from kproxy.protocol import MessageStruct
from kproxy.protocol.object_codec import decode, encode
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import struct_types

EMPTY_ARRAY = b"\1"  # compact: N + 1
NO_TAGS = b"\0"
PAD_TAGS = range(127, 63, -1), range(16_383, 16_319, -1)  # that take one byte and two; Kafka counts its tags from 0


def read_tail(api_key: int, api_version: int, tail: bytes) -> MessageStruct:
    """Decode the last fields of a response, from where ``tail_start`` says. Raises DecodeError."""
    return decode(_program(api_key, api_version), tail)


def write_tail(api_key: int, api_version: int, message: MessageStruct, size: int) -> bytes | None:
    """Encode *message* into exactly *size* bytes; None if it does not fit, or the rest cannot be filled. Raises EncodeError."""
    program = _program(api_key, api_version)
    data = encode(program, message)
    if len(data) == size:
        return data
    if len(data) + 1 == size:
        return _stretched(data)
    given = message.unknown_tags
    for pad in _pads(size - len(data), {tag for tag, _ in given}):
        message.unknown_tags = (*given, pad)
        padded = encode(program, message)
        if len(padded) == size:
            return padded
    return None


def withheld_tail(api_key: int, api_version: int, size: int) -> bytes:
    """Return *size* bytes without content: no elements, and one unknown tagged field full of zeros."""
    before = EMPTY_ARRAY if tail_start(api_key, api_version) and size else b""
    return before + _blank_tags(size - len(before))


@functools.cache
def _program(api_key: int, api_version: int) -> Program:
    layout = layout_of(api_key, api_version)
    first, before = tail_start(api_key, api_version), untagged(layout, api_version)
    names = [field.json_name for field in before]
    passed = before[: names.index(first) if first else len(before)]
    kept = tuple(field for field in layout.fields if field not in passed)
    return Program(replace(layout, fields=kept), api_version, struct_types(layout.name), secrecy)


def _blank_tags(size: int) -> bytes:
    if size < 3:
        return (b"", NO_TAGS, _stretched(NO_TAGS))[size]
    ((tag, data), *_) = _pads(size - 1, set())
    return b"".join((b"\1", _uvarint(tag), _uvarint(len(data)), data))


def _pads(size: int, taken: set[int]) -> list[tuple[int, bytes]]:
    """Yield tagged fields, of tags not *taken*, that have *size* bytes with tag and size; at least one from 2 bytes on."""
    free = (next((tag for tag in tags if tag not in taken), None) for tags in PAD_TAGS)
    ways = ((tag, size - len(_uvarint(tag)) - width, width) for tag in free if tag is not None for width in range(1, 6))
    return [(tag, bytes(room)) for tag, room, width in ways if room >= 0 and len(_uvarint(room)) == width]


def _stretched(data: bytes) -> bytes:
    """Make the first unsigned varint one byte longer: Kafka's ByteUtils reads up to five bytes, also leading zeros."""
    last = next(at for at, byte in enumerate(data) if byte < 0x80)
    return data[:last] + bytes([data[last] | 0x80, 0]) + data[last + 1 :]


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
