"""Read the options of pcapng blocks (draft-ietf-opsawg-pcapng, section 3.5), and interface descriptions."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

ByteOrder = Literal["big", "little"]

END = 0
COMMENT = 1
INTERFACE_NAME = 2
TIME_RESOLUTION = 9
TIME_OFFSET = 14


class TimeUnit(Struct, frozen=True):
    """How an interface counts time: units of 1/10^digits or 1/2^digits second since 1970 + offset seconds."""

    digits: int = 6
    binary: bool = False
    offset: int = 0


class Interface(Struct, frozen=True):
    """The parts of an interface description block that packets need."""

    link_type: int
    snaplen: int
    unit: TimeUnit
    name: str | None = None


def read_options(data: bytes, big_endian: bool) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value) up to the end marker or the first option that does not fit; a bad option is not an error."""
    order: ByteOrder = "big" if big_endian else "little"
    at = 0
    while at + 4 <= len(data):
        code = int.from_bytes(data[at : at + 2], order)
        size = int.from_bytes(data[at + 2 : at + 4], order)
        if code == END or at + 4 + size > len(data):
            return
        yield code, data[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


def read_interface(body: bytes, big_endian: bool) -> Interface | None:
    """Read the body of an interface description block; None if it is shorter than its fixed part."""
    order: ByteOrder = "big" if big_endian else "little"
    if len(body) < 8:
        return None
    digits, binary, offset, name = 6, False, 0, None
    for code, value in read_options(body[8:], big_endian):
        if code == TIME_RESOLUTION and len(value) == 1:
            digits, binary = value[0] & 0x7F, value[0] & 0x80 != 0
        elif code == TIME_OFFSET and len(value) == 8:
            offset = int.from_bytes(value, order, signed=True)
        elif code == INTERFACE_NAME:
            name = value.decode("utf-8", "replace")
    link_type = int.from_bytes(body[:2], order)
    snaplen = int.from_bytes(body[4:8], order)
    return Interface(link_type, snaplen, TimeUnit(digits, binary, offset), name)
