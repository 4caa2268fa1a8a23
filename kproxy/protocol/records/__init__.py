"""Records: what is in the records fields of Produce, Fetch, ShareFetch and FetchSnapshot. One parser, three ways out.

    limits.py       how much is opened of what an attacker claims
    compression.py  the codecs, streamed under limits; snappy.py, lz4_frames.py and zstd_frames.py know their frames and
                    Kafka's dialects; unpacked.py is what they give
    shape.pxd       the parser: steps through a batch of any magic, one record's shape at a time
    batches.pyx     Batch: a header, straight from the bytes; OpenBatch: its records, ready to be walked
    reading.py      read_batches: a field's batches and what is left over; count_records
    unaligned.py    where the first batch begins in a chunk of a snapshot
    objects.pyx     Record; records out of an opened batch, and back to bytes
    editing.py      RecordBatch: read_records, write_batches
    columns.pyx     the parser again, into Arrow's buffers
    arrow.py        to_arrow: a pyarrow.RecordBatch whose keys and values are views into the batch
    control.py      control records

Any bytes give a result that says what is wrong in it: ``error`` where bytes are not what Kafka writes, ``skipped`` where a
limit was exceeded, ``crc_valid`` where a checksum is wrong. Nothing is repaired, and no bytes raise.
"""

from kproxy.protocol.records.arrow import Problem, to_arrow
from kproxy.protocol.records.batches import Batch, OpenBatch
from kproxy.protocol.records.compression import Codec
from kproxy.protocol.records.control import ControlRecord, read_control_record
from kproxy.protocol.records.editing import RecordBatch, read_batch, read_records, write_batches
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from kproxy.protocol.records.objects import Record
from kproxy.protocol.records.reading import Batches, Tail, count_records, open_batches, read_batches

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
