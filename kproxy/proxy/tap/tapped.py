"""The kinds of records in a tap ring, and what they carry."""

from enum import IntEnum
from typing import TypeAlias

import msgspec


class TapKind(IntEnum):
    """What a record is; its numbers are in the ring. 0 is taken: the ring goes on at its start."""

    OPEN = 1  # JSON of Opened
    DATA = 2  # bytes as they were received
    LOST = 3  # how many bytes are missing here (no room, no reader, or the tap was paused): 8 bytes, little-endian
    END = 4  # that side sent its end, or was lost
    CLOSE = 5  # one byte: CloseCause


class Opened(msgspec.Struct):
    """What OPEN carries, as JSON: the connection whose bytes follow."""

    number: int
    cluster: str  # its name in the configuration
    client: str  # "address:port"
    broker: str
    from_start: bool  # the bytes that follow are the first of the connection


TapItem: TypeAlias = tuple[int, int, int, int, bytes]  # kind, connection, direction, at (ns), bytes
