"""Where the first batch begins in a chunk that was cut out of a log at any byte (FetchSnapshot's UnalignedRecords).

Snapshots hold batches of magic 2 only. A header is accepted where its fields agree with each other and its CRC-32C is
correct; at the very start, where the fields agree.
"""

from kproxy.errors import Malformed
from kproxy.protocol.records.batches import Batch, find_header

MOST_CRC = 4  # times the chunk's size: bytes that may be checksummed in all
CANDIDATE = 1024  # the least price of one candidate, in bytes


def first_batch_at(data: bytes) -> int:
    """Return the position of the first batch; the chunk's size when none is found."""
    position = find_header(data, 0)
    budget = MOST_CRC * len(data) + CANDIDATE
    while position > 0 and budget > 0:
        size = _whole_size(data, position)
        if size and Batch(data, position).crc_valid:
            return position
        budget -= size + CANDIDATE
        position = find_header(data, position + 1)
    return len(data) if position else 0


def _whole_size(data: bytes, position: int) -> int:
    try:
        return Batch(data, position).size
    except Malformed:
        return 0
