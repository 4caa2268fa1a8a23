"""The kinds of records in a tap ring, and what they carry."""

from enum import IntEnum
from typing import TypeAlias

DIRECTION_REQUEST, DIRECTION_RESPONSE = 0, 1


class TapKind(IntEnum):
    """Repeats TapRecord of ring.pxd."""

    OPEN = 1  # JSON: number, cluster, client, broker, from_start
    DATA = 2  # bytes as they passed
    LOST = 3  # how many bytes did not fit: 8 bytes, little-endian
    END = 4  # that side sends no more
    CLOSE = 5  # one byte: CloseCause, or nothing


TapItem: TypeAlias = tuple[int, int, int, int, bytes]  # kind, connection, direction, at (ns), bytes
