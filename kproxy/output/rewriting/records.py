"""Records fields rewritten, record by record.

A batch that is not compressed keeps its size. One that is compressed is compressed again with its codec, and may come out
in another size: the codec's choices are lost; its name, the records, offsets and times stay. A batch that cannot be rewritten
record by record, because it is damaged or cut off, keeps its header, and the rest becomes zeros.
"""

from collections.abc import Callable
from typing import TypeAlias

from kproxy.errors import EncodeError
from kproxy.protocol.records import (
    DEFAULT_LIMITS,
    Codec,
    OpenBatch,
    Record,
    RecordBatch,
    open_batches,
    read_batch,
    read_batches,
    write_batches,
)
from kproxy.protocol.records.checksum import crc32c

HEADER_SIZE = {0: 26, 1: 34, 2: 61}  # of a batch, or of a message down to its key
MAGIC_AT, CRC_AT, COVERED_AT = 16, 17, 21

RewriteRecord: TypeAlias = Callable[[Record, RecordBatch], None]


def rewrite_records(data: bytes, rewrite: RewriteRecord, *, unaligned: bool = False, keeps_size: bool = False) -> bytes:
    """Return a records field after *rewrite* changed each of its records in place.

    Args:
        data: the field.
        rewrite: changes one record.
        unaligned: the field may begin inside a batch (FetchSnapshot); what is before the first whole batch is blanked.
        keeps_size: blank compressed batches that *rewrite* changes, rather than compress them again to another size.
    """
    batches = read_batches(data, unaligned=unaligned)
    tail = data[batches.tail.position :] if batches.tail is not None else b""
    written = [bytes(batches.skipped_start)]
    for opened in open_batches(batches, DEFAULT_LIMITS):
        written.append(_rewrite(opened, rewrite, keeps_size=keeps_size))
    return b"".join([*written, _blank(tail)])


def _rewrite(opened: OpenBatch, rewrite: RewriteRecord, *, keeps_size: bool) -> bytes:
    """Rewrite a batch; blank it if it cannot be read, or cannot be written with its size."""
    batch, source = read_batch(opened), opened.batch
    if batch.error is not None or batch.skipped is not None or not source.crc_valid:
        return _blank(source.raw)
    changed = batch.copy()
    for record in changed.records:
        rewrite(record, changed)
    if changed.records == read_batch(opened).records:
        return source.raw
    try:
        written = write_batches([changed])
    except EncodeError:
        return _blank(source.raw)
    may_be_written = len(written) == len(source.raw) or (batch.codec != Codec.NONE and not keeps_size)
    return _with_header(written, source.raw) if may_be_written else _blank(source.raw)


def _with_header(written: bytes, raw: bytes) -> bytes:
    """Give a written batch its former header back, even one that contradicts its records."""
    if raw[MAGIC_AT] != 2:
        return written
    restored = written[:CRC_AT] + bytes(4) + raw[COVERED_AT : HEADER_SIZE[2]] + written[HEADER_SIZE[2] :]
    return restored[:CRC_AT] + crc32c(restored[COVERED_AT:]).to_bytes(4, "big") + restored[COVERED_AT:]


def _blank(raw: bytes) -> bytes:
    """Return a batch, which may be cut off, with its header and zeros for the rest."""
    magic = raw[MAGIC_AT] if len(raw) > MAGIC_AT else 0
    header = raw[: HEADER_SIZE.get(magic, MAGIC_AT + 1)]
    return header + bytes(len(raw) - len(header))
