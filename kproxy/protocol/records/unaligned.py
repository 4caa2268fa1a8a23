"""Find the first batch in a chunk of a log that begins at any byte (FetchSnapshot's UnalignedRecords).

Snapshots have batches of magic 2 only. A header is accepted if its fields are consistent and the CRC-32C is correct; at the
beginning of the chunk, consistent fields are enough.
"""

from kproxy.errors import Malformed
from kproxy.protocol.records.batches import Batch, find_header

MOST_CRC = 4  # bytes checksummed altogether are at most this many times the chunk's size
CANDIDATE = 1024  # the least price of one candidate, in bytes


def first_batch_at(data: bytes) -> int:
    """Return the position of the first batch, or the chunk's size if there is none."""
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
