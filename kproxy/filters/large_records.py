"""Which records take so long to be changed that it has to be done aside, in a thread: other connections would wait meanwhile."""

from collections.abc import Collection

from kproxy.protocol.records import read_batches

LARGE = 131_072  # bytes of records that take more than a millisecond
RATIO = 8  # of compressed records it is the size that they have then; text of many records alike has about this


def take_long(fields: Collection[bytes]) -> bool:
    """Whether the records fields of a message take more than a millisecond."""
    size = sum(map(len, fields))
    if size > LARGE or size * RATIO <= LARGE:
        return size > LARGE
    return any(batch.codec for field in fields for batch in read_batches(field))
