"""Records: what is in the records fields of Produce, Fetch, ShareFetch and FetchSnapshot.

    read_batches(data)              -> Batches: the headers, of any magic; nothing is decompressed
    batch.open(limits)              -> OpenBatch: decompressed, ready to be walked
    read_records(batch)             -> RecordBatch with Record objects; write_batches makes bytes of them again
    to_arrow(data)                  -> a pyarrow.RecordBatch

One parser (shape.pxd) with three outputs: counts and headers, objects, Arrow columns.

    limits.py       Limits: how much is decompressed and read of what the bytes claim
    compression.py  Codec, decompress, compress: the codecs, streamed under Limits
    snappy.py       xerial's block stream and raw snappy
    lz4_frames.py   LZ4 frames in Kafka's dialects
    zstd_frames.py  Zstandard frames
    unpacked.py     Unpacked: what decompressing returns: data, or why not
    checksum.py     CRC-32C
    shape.pxd       the parser: steps through a batch of any magic, one record at a time
    batches.pyx     Batch: a header, straight from the bytes; OpenBatch: its records, ready to be walked
    reading.py      read_batches: a field's batches and what is left over; count_records
    unaligned.py    where the first batch begins in a chunk of a snapshot
    objects.pyx     Record; records out of an opened batch, and back to bytes
    editing.py      RecordBatch: read_records, write_batches
    rebatching.py   a batch with other records and the same header: change_plain, change_fields, change_records
    replacing.pyx   keys and values of a batch's records, replaced
    inserting.pyx   headers inserted into the records of a batch
    columns.pyx     the parser again, into Arrow's buffers
    arrow.py        to_arrow: a pyarrow.RecordBatch whose keys and values are views into the batch
    control.py      control records

Any bytes give a result that says what is wrong in it: ``error`` where bytes are not what Kafka writes, ``skipped`` where a
limit was exceeded, ``crc_valid`` where a checksum is wrong. Nothing is repaired, and no bytes raise.

To add
    a compression codec   a member of Codec with its number from the attributes (compression.py), a branch in ``_decompress`` and
                          one in ``compress`` there, and a module beside snappy.py with ``decompress(data, limits) -> Unpacked``
                          and, if the library needs help, ``compress(data)``. It must ask ``limits.allowed(len(data))`` before it
                          allocates, and return an Unpacked with ``error`` or ``skipped`` instead of raising. Batches, objects
                          and columns then read it without a change; tests/protocol/records/test_compression.py tries every
                          member of Codec. Name it in the column ``codec`` of kproxy.output.tables.contracts. What is legal at
                          which magic is decided in ``decompress``, and for writing in editing.py.
    a record format       (magic 3) shape.pxd, and the header fields in batches.pyx
    a control record      control.py
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kproxy.protocol.records.batches import Batch, OpenBatch
from kproxy.protocol.records.compression import Codec
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from kproxy.protocol.records.objects import Record
from kproxy.protocol.records.reading import Batches, Tail, count_records, open_batches, read_batches

if TYPE_CHECKING:
    from kproxy.protocol.records.arrow import Problem, to_arrow
    from kproxy.protocol.records.control import ControlRecord, read_control_record
    from kproxy.protocol.records.editing import RecordBatch, read_batch, read_records, write_batches

__all__ = [
    "DEFAULT_LIMITS",
    "Batch",
    "Batches",
    "Codec",
    "ControlRecord",
    "Limits",
    "OpenBatch",
    "Problem",
    "Record",
    "RecordBatch",
    "Tail",
    "count_records",
    "open_batches",
    "read_batch",
    "read_batches",
    "read_control_record",
    "read_records",
    "to_arrow",
    "write_batches",
]

_LATE = {  # what a decode of headers does not need, and the module of each name
    "ControlRecord": "control",
    "Problem": "arrow",
    "RecordBatch": "editing",
    "read_batch": "editing",
    "read_control_record": "control",
    "read_records": "editing",
    "to_arrow": "arrow",
    "write_batches": "editing",
}


def __getattr__(name: str) -> object:
    """Load a name of _LATE when it is used first (PEP 562)."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    globals()[name] = found
    return found
