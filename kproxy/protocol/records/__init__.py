"""Read and write the records fields of Produce, Fetch, ShareFetch and FetchSnapshot.

    read_batches(data)              -> Batches: headers of any magic, without decompression
    batch.open(limits)              -> OpenBatch: decompressed, ready to be walked
    read_records(data)              -> list of RecordBatch with Record objects; write_batches turns them into bytes again
    to_arrow(data)                  -> a pyarrow.RecordBatch

One parser (shape.pxd) with three outputs: counts and headers, objects, Arrow columns.

    limits.py       Limits: bounds on decompression and reading, whatever the bytes claim; Unpacked: the result of decompression
    compression.py  Codec, decompress, compress: the codecs, streamed under Limits
    snappy.py       xerial's block stream and raw snappy
    lz4_frames.py   LZ4 frames in Kafka's dialects
    zstd_frames.py  Zstandard frames
    checksum.py     CRC-32C
    shape.pxd       the parser: steps through a batch of any magic, record by record
    batches.pyx     Batch: a header, read directly from the bytes; OpenBatch: its records, ready to be walked
    reading.py      read_batches: a field's batches and what is left over, also in a chunk of a snapshot; count_records
    objects.pyx     Record; reads records from an opened batch, and encodes them
    editing.py      RecordBatch: read_records, write_batches; changes of records that keep the batch's header
    in_place.pyx    replaces keys and values, inserts and finds headers, without objects for the records
    columns.pyx     writes records into Arrow's buffers
    arrow.py        to_arrow: a pyarrow.RecordBatch whose keys and values are views into the batch
    control.py      control records

Any bytes give a result that says what is wrong: ``error`` for malformed bytes, ``skipped`` for an exceeded limit, ``crc_valid``
for a wrong checksum. Nothing is repaired, and nothing raises for any bytes.

To add
    a compression codec   a member of Codec with its number from the attributes (compression.py), a branch in ``_decompress`` and
                          one in ``compress`` there, and a module like snappy.py with ``decompress(data, limits) -> Unpacked``
                          and, if the library needs help, ``compress(data)``. It must check ``limits.allowed(len(data))`` before
                          it allocates, and return an Unpacked with ``error`` or ``skipped`` instead of raising. Batches, objects
                          and columns then read it without a change; tests/protocol/records/test_compression.py tries every
                          member of Codec. Name it in the column ``codec`` of kproxy.output.tables.contracts. What is legal at
                          which magic is decided in ``decompress``, and for writing in editing.py.
    a record format       (magic 3) shape.pxd, and the header fields in batches.pyx
    a control record      control.py
"""

from kproxy.protocol.records.batches import Batch, OpenBatch
from kproxy.protocol.records.compression import Codec
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from kproxy.protocol.records.objects import Record
from kproxy.protocol.records.reading import Batches, count_records, open_batches, read_batches

__all__ = [
    "DEFAULT_LIMITS",
    "Batch",
    "Batches",
    "Codec",
    "Limits",
    "OpenBatch",
    "Record",
    "count_records",
    "open_batches",
    "read_batches",
]
