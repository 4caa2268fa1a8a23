"""Change the records of a batch and keep its codec and its header, except size and CRC.

The batch keeps its offsets, times, producer id, epoch, sequence and flags, so transactions and idempotent producers work on.
A batch with a wrong CRC, or one that cannot be read to its end, is not changed: its damage must not get a valid checksum.
A batch that decompresses to more than the limits allow raises TooLarge.
"""

from collections.abc import Callable

from kproxy.errors import EncodeError, Malformed
from kproxy.protocol.records.batches import Batch
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.compression import CODECS, Codec, compress, decompress
from kproxy.protocol.records.editing import RecordBatch, read_batch, write_batches
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from kproxy.protocol.records.objects import Record
from kproxy.protocol.records.replacing import Editor, replace_fields

HEADER_SIZE = 61  # of a batch of magic 2
SIZE_AT, MAGIC_AT, CRC_AT, COVERED_AT = 8, 16, 17, 21
LOG_OVERHEAD = 12
CONTROL = 0x20
MAGIC_OF_BATCHES = 2

Change = Callable[[bytes], bytes | None]
ChangeRecord = Callable[[Record], bool]


class TooLarge(ValueError):
    """A batch decompresses to more than the limits allow."""


def with_header_of(raw: bytes, records: bytes) -> bytes:
    """Return a batch of magic 2 with the header of *raw* and these (already compressed) records."""
    size = (HEADER_SIZE - LOG_OVERHEAD + len(records)).to_bytes(4, "big")
    head = raw[COVERED_AT:HEADER_SIZE]
    crc = crc32c(records, crc32c(head)).to_bytes(4, "big")
    return b"".join((raw[:SIZE_AT], size, raw[LOG_OVERHEAD:CRC_AT], crc, head, records))


def change_plain(batch: Batch, change: Change, limits: Limits = DEFAULT_LIMITS) -> bytes | None:
    """Return a batch of magic 2 after *change* of its decompressed records.

    None if the batch cannot be changed, or *change* returns None. Raises TooLarge.
    """
    if batch.magic != 2 or batch.attributes & CONTROL or batch.codec not in CODECS or not batch.crc_valid:
        return None
    raw = batch.raw
    unpacked = decompress(batch.codec, memoryview(raw)[HEADER_SIZE:], limits=limits)
    if unpacked.skipped is not None:
        raise TooLarge(unpacked.skipped)
    if unpacked.error is not None:
        return None
    changed = change(bytes(unpacked.data))
    return None if changed is None else with_header_of(raw, compress(Codec(batch.codec), changed))


def change_fields(
    batch: Batch, values: Editor | None, keys: Editor | None = None, limits: Limits = DEFAULT_LIMITS
) -> bytes | None:
    """Return a batch of any magic after its values and keys were edited; its own bytes if none was changed.

    None if it cannot be read to its end or its CRC is wrong. Control batches are not changed. Raises TooLarge.
    """
    if not batch.crc_valid:
        return None
    if batch.magic < MAGIC_OF_BATCHES:
        return change_records(batch, lambda record: _edit(record, values, keys), limits)
    if batch.attributes & CONTROL:
        return batch.raw
    opened = batch.open(limits)
    if opened.skipped is not None:
        raise TooLarge(opened.skipped)
    try:
        changed = replace_fields(opened, values, keys)
    except Malformed:
        return None
    return batch.raw if changed is None else with_header_of(batch.raw, compress(Codec(batch.codec), changed))


def _edit(record: Record, values: Editor | None, keys: Editor | None) -> bool:
    value = values.edited(record.value) if values is not None and record.value is not None else None
    key = keys.edited(record.key) if keys is not None and record.key is not None else None
    record.value = record.value if value is None else value
    record.key = record.key if key is None else key
    return value is not None or key is not None


def change_records(batch: Batch, change: ChangeRecord, limits: Limits = DEFAULT_LIMITS) -> bytes | None:
    """Return a batch of any magic after *change*, which is called with each record, may edit it and returns whether it did.

    The same bytes if no record was changed. None if it cannot be read to its end or its CRC is wrong. Control batches are not
    changed. Raises TooLarge.
    """
    read = read_batch(batch.open(limits))
    if read.error is not None or not batch.crc_valid:
        return None
    if read.skipped is not None:
        raise TooLarge(read.skipped)
    if read.is_control or not sum(change(record) for record in read.records):  # any() would stop at the first
        return batch.raw
    return _written(read, batch.raw)


def _written(changed: RecordBatch, raw: bytes) -> bytes | None:
    changed.source = None
    try:
        written = write_batches([changed])
    except EncodeError:
        return None
    return with_header_of(raw, written[HEADER_SIZE:]) if raw[MAGIC_AT] == 2 else written
