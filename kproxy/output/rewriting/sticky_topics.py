"""Rewrite the user data of the sticky assignors with other topic names.

AbstractStickyAssignor: StickyAssignor writes the partitions that a member had (an array of topic and partitions) and from
its version 1 on the generation (int32); CooperativeStickyAssignor the generation alone.
"""

from collections.abc import Callable
from struct import Struct

GENERATION_SIZE = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class NotSticky(Exception):
    """The bytes are something else."""


def rewrite_sticky(data: bytes, name: Callable[[str], str]) -> bytes | None:
    """Replace each topic in the user data by what *name* returns for it, in as many bytes; None for other user data."""
    if len(data) == GENERATION_SIZE:
        return data
    try:
        topics, position = _number(data, 0, _INT32)
        written = bytearray(data)
        for _ in range(topics):
            size, position = _number(data, position, _INT16)
            topic = data[position : position + size]
            written[position : position + size] = name(topic.decode("utf-8", "surrogateescape")).encode()
            partitions, position = _number(data, position + size, _INT32)
            position += 4 * partitions
    except NotSticky:
        return None
    is_complete = len(data) - position in (0, GENERATION_SIZE) and len(written) == len(data)
    return bytes(written) if is_complete else None


def _number(data: bytes, position: int, layout: Struct) -> tuple[int, int]:
    """Read a size or count; return it and the position after it. Raises NotSticky for one that the data cannot hold."""
    end = position + layout.size
    if end > len(data):
        raise NotSticky
    number: int = layout.unpack_from(data, position)[0]
    if not 0 <= number <= len(data) - end:
        raise NotSticky
    return number, end
