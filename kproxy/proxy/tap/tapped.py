"""The kinds of records in a tap ring, and what they carry."""

from enum import IntEnum
from typing import TypeAlias

import msgspec

DIRECTION_REQUEST, DIRECTION_RESPONSE = 0, 1


class TapKind(IntEnum):
    """Repeats TapRecord of ring.pxd."""

    OPEN = 1  # JSON of Opened
    DATA = 2  # bytes as they passed
    LOST = 3  # how many bytes did not fit: 8 bytes, little-endian
    END = 4  # that side sends no more
    CLOSE = 5  # one byte: CloseCause, or nothing


class Opened(msgspec.Struct):
    """What OPEN carries, as JSON: the connection whose bytes follow."""

    number: int
    cluster: str  # its name in the configuration
    client: str  # "address:port"
    broker: str
    from_start: bool  # the bytes that follow are the first of the connection


TapItem: TypeAlias = tuple[int, int, int, int, bytes]  # kind, connection, direction, at (ns), bytes
