"""Replace producer ids and epochs in the headers of record batches, and the checksums that cover them.

Only batches of magic 2 have them. A batch whose CRC is wrong stays as it is: its damage must not get a valid checksum.
Nothing is decompressed.
"""

from collections.abc import Callable
from struct import pack_into
from typing import NamedTuple

from kproxy.protocol.records import read_batches
from kproxy.protocol.records.checksum import crc32c

MAGIC_OF_BATCHES = 2
CRC_AT, COVERED_AT, PRODUCER_ID_AT = 17, 21, 43  # in a batch (DefaultRecordBatch)


class Producer(NamedTuple):
    """A producer id and its epoch; both are -1 for none."""

    producer_id: int
    epoch: int


def replace_producers(records: bytes, replacement: Callable[[int, int], Producer]) -> bytes:
    """Return a records field with other producer ids and epochs; the same object if none changes."""
    changed: bytearray | None = None
    for batch in read_batches(records):
        if batch.magic != MAGIC_OF_BATCHES or batch.producer_id in (None, -1) or not batch.crc_valid:
            continue
        old = Producer(batch.producer_id or 0, batch.producer_epoch or 0)
        new = replacement(*old)
        if new == old:
            continue
        changed = changed or bytearray(records)
        start, end = batch.position, batch.position + len(batch.raw)
        pack_into(">qh", changed, start + PRODUCER_ID_AT, new.producer_id, new.epoch)
        pack_into(">I", changed, start + CRC_AT, crc32c(memoryview(changed)[start + COVERED_AT : end]))
    return records if changed is None else bytes(changed)


def producers_of(records: bytes) -> set[Producer]:
    """Return the producer ids and epochs in a records field."""
    batches = (batch for batch in read_batches(records) if batch.magic == MAGIC_OF_BATCHES)
    return {Producer(b.producer_id, b.producer_epoch or 0) for b in batches if b.producer_id not in (None, -1)}
