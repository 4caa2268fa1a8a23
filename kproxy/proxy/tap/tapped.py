"""The kinds of records in a tap ring, and what they carry."""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from kproxy.filters.contract import ClientTls


class TapKind(IntEnum):
    """What a record is; its numbers are in the ring. 0 is taken: the ring goes on at its start."""

    OPEN = 1  # JSON of Opened
    DATA = 2  # bytes as they were received
    LOST = 3  # how many bytes are missing here; where frames begin is not known after it: 8 bytes, little-endian
    END = 4  # this side closed (FIN) or was reset: one byte, 1 for a reset
    CLOSE = 5  # one byte: CloseCause; then how many of the connection's requests were written since OPEN: as LOST
    LEFT_OUT = 6  # how many bytes of a frame were left out, as the analyzer was behind: as LOST
    SNAPPED = 7  # how many bytes of a frame were cut off by ``snaplen``: as LOST
    SENT = 8  # its time is when requests were sent on whose DATA records do not say when
    EDITED = 9  # what filters did to the frame that ends next in this direction, in words, a line each: UTF-8


class Opened(msgspec.Struct):
    """What OPEN carries, as JSON: the connection whose bytes follow."""

    number: int
    cluster: str  # its name in the configuration
    client: str  # "address:port"
    broker: str
    from_start: bool  # the bytes that follow are the first of the connection
    in_frames: bool = False  # the bytes that follow begin with a frame, in both directions
    tls: ClientTls | None = None  # None: the client has none
    user_name: str | None = None  # the client's name in its login to kproxy; None: kproxy asks for no login
    sasl_mechanism: str | None = None  # of that login; None: it was a certificate


TapItem: TypeAlias = tuple[int, int, int, int, bytes, int]  # kind, connection, direction, at (ns), bytes, sent_after
