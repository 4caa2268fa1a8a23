"""Where the first batch begins in a chunk that was cut out of a log at any byte (FetchSnapshot's UnalignedRecords).

Snapshots hold batches of magic 2 only. A header is believed where its fields agree with each other and its CRC-32C is
right; at the very start, where the fields agree.
"""

import struct

from kproxy.protocol.records.batches import Batch

MAGIC_2 = b"\x02"
MAGIC_AT = 16
HEADER = struct.Struct(">qiibIhiqqqhii")  # DefaultRecordBatch
KNOWN_ATTRIBUTES = 0x7F
LOG_OVERHEAD = 12
MOST_CRC = 4  # times the chunk's size: bytes that checksums may be computed over in all


def first_batch_at(data: bytes) -> int:
    """The position of the first batch; the chunk's size when none begins in it."""
    size = _plausible_size(data, 0)
    if size is not None:
        return 0
    budget = MOST_CRC * len(data) + HEADER.size
    position = data.find(MAGIC_2, MAGIC_AT + 1) - MAGIC_AT
    while position > 0 and budget > 0:
        size = _plausible_size(data, position)
        if size is not None and position + size <= len(data):
            budget -= size
            if Batch(data, position).crc_valid:
                return position
        position = data.find(MAGIC_2, position + MAGIC_AT + 1) - MAGIC_AT
    return len(data)


def _plausible_size(data: bytes, position: int) -> int | None:
    """The size of the batch whose header stands there; None where no header can."""
    if len(data) - position < HEADER.size:
        return None
    fields = HEADER.unpack_from(data, position)
    base_offset, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count = fields
    if magic != 2 or base_offset < 0 or length < HEADER.size - LOG_OVERHEAD or attributes & ~KNOWN_ATTRIBUTES:
        return None
    if attributes & 7 > 4 or not 0 <= count <= last_delta + 1:
        return None
    return int(length) + LOG_OVERHEAD
