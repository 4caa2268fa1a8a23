"""Change batches: as objects (read_records, write_batches), or only their records (change_plain, change_fields, change_records).

An unchanged batch keeps its bytes: writing compares it with its source, read once more. A changed batch gets new sizes, counts,
deltas and a new CRC, and keeps its codec. A batch that could not be read completely, or whose CRC was wrong, cannot be changed:
its damage must not get a valid checksum.

The change_ functions keep the header, except size and CRC: offsets, times, producer id, epoch, sequence and flags stay, so
transactions and idempotent producers work on. A batch that decompresses to more than the limits allow raises TooLarge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from struct import Struct
from struct import error as StructError

from kproxy.errors import EncodeError, Malformed
from kproxy.protocol.records.batches import Batch, OpenBatch
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.compression import CODECS, Codec, compress, decompress
from kproxy.protocol.records.in_place import Editor, FrameEdit, HeaderEditor, replace_fields
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits, TooLarge
from kproxy.protocol.records.objects import Record, encode_message, encode_records, read_objects
from kproxy.protocol.records.reading import open_batches, read_batches

HEADER = Struct(">qiibIhiqqqhii")  # DefaultRecordBatch: everything before the records
LOG_OVERHEAD = 12
COVERED_AT = 21  # the CRC covers the bytes from here on
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
OF_LEGACY = 0x0F  # attribute bits that magic 1 has


@dataclass(slots=True)
class RecordBatch:
    """One batch and its records, which can be changed.

    For magic 0 and 1 the fields from ``partition_leader_epoch`` on have no meaning. If records are missing, ``error`` or
    ``skipped`` says why.
    """

    records: list[Record] = field(default_factory=list)
    magic: int = 2
    base_offset: int | None = None  # None: the first record's
    last_offset: int | None = None  # None: the last record's; stays the same if records are removed
    codec: int = Codec.NONE
    attributes: int = 0  # without the codec: timestamp type, transactional, control, delete horizon
    base_timestamp: int | None = None  # None: the first record's
    max_timestamp: int | None = None  # used for LogAppendTime and without records; otherwise computed
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    error: str | None = field(default=None, compare=False)
    skipped: str | None = field(default=None, compare=False)
    source: Batch | None = field(default=None, compare=False, repr=False)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL)

    def renumber(self) -> None:
        """Number the records from the base offset on without gaps, as in Produce requests."""
        base = self.base_offset or 0
        for index, record in enumerate(self.records):
            record.offset = base + index
        self.base_offset, self.last_offset = base, base + max(0, len(self.records) - 1)

    def copy(self) -> "RecordBatch":
        """Return a copy without the source, so that writing encodes all of it."""
        return replace(self, source=None, records=list(self.records))


def read_records(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> list[RecordBatch]:
    """Return the complete batches of a records field with their records; ``read_batches`` also has the bytes behind them."""
    return [read_batch(opened) for opened in open_batches(read_batches(data, limits=limits), limits)]


def read_batch(opened: OpenBatch) -> RecordBatch:
    header = opened.batch
    records, error = read_objects(opened)
    batch = RecordBatch(records, header.magic, codec=header.codec, attributes=header.attributes & ~7)
    batch.last_offset, batch.max_timestamp = header.last_offset, header.max_timestamp
    batch.base_offset = opened.base_offset
    batch.base_timestamp = header.base_timestamp
    if header.magic == 2:
        batch.partition_leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence = header.producer
    batch.error, batch.skipped, batch.source = error, opened.skipped, header
    return batch


def write_batches(batches: Iterable[RecordBatch | Batch], *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Encode a records field. Raises EncodeError for a changed batch that cannot be written.

    *limits* must be those under which the batches were read.
    """
    return b"".join(b.raw if isinstance(b, Batch) else _write(b, limits) for b in batches)


def _write(batch: RecordBatch, limits: Limits) -> bytes:
    if batch.source is not None:
        before = read_batch(batch.source.open(limits))
        if batch.skipped is not None:  # perhaps by the limit for all batches together
            before.records = []
        if before == batch:
            return batch.source.raw
        _refuse_damaged(batch, batch.source)
    if batch.codec not in CODECS or (batch.codec == Codec.ZSTD and batch.magic < 2):
        raise EncodeError(f"codec {batch.codec} is not one of magic {batch.magic}")
    if batch.magic not in (0, 1, 2):
        raise EncodeError(f"no batch has magic {batch.magic}")
    if not all(isinstance(record, Record) for record in batch.records):
        raise EncodeError("a batch with something in it that is no Record")
    try:
        return _write_batch(batch) if batch.magic == 2 else _write_messages(batch)
    except OverflowError as error:
        raise EncodeError(f"a batch with a field that does not fit: {error}") from None


def _refuse_damaged(batch: RecordBatch, source: Batch) -> None:
    place = f"batch with last offset {source.last_offset}"
    if batch.skipped is not None or batch.error is not None:
        raise EncodeError(f"{place} was changed, but not all of it could be read: {batch.skipped or batch.error}")
    if not source.crc_valid:
        raise EncodeError(f"{place} was changed, but its CRC was wrong before: send it as it came, or not at all")


def _write_batch(batch: RecordBatch) -> bytes:
    """Encode a batch of magic 2."""
    records = batch.records
    base_offset, last_offset = _offsets(batch)
    base_timestamp = batch.base_timestamp
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    plain = encode_records(records, base_offset, base_timestamp, bool(batch.attributes & LOG_APPEND_TIME))
    body = compress(Codec(batch.codec), plain) if records else b""
    header = (
        (base_offset, HEADER.size - LOG_OVERHEAD + len(body), batch.partition_leader_epoch, 2, 0),
        (_attributes(batch), last_offset - base_offset, base_timestamp, _max_timestamp(batch)),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence, len(records)),
    )
    out = bytearray(_packed(*(value for part in header for value in part)) + body)
    out[CRC_AT:COVERED_AT] = crc32c(memoryview(out)[COVERED_AT:]).to_bytes(4, "big")
    return bytes(out)


def _packed(*values: int) -> bytes:
    try:
        return HEADER.pack(*values)
    except StructError as error:
        raise EncodeError(f"a batch with a field that does not fit: {error}") from None


def _attributes(batch: RecordBatch) -> int:
    value = (batch.attributes & ~7 | batch.codec) & 0xFFFF
    return value - 0x10000 if value >= 0x8000 else value


def _offsets(batch: RecordBatch) -> tuple[int, int]:
    """Return the base offset and the last offset for the header."""
    offsets = [record.offset for record in batch.records]
    base = batch.base_offset
    if base is None:
        base = min(offsets, default=0)
    last = max(offsets, default=base)
    return base, last if batch.last_offset is None else max(last, batch.last_offset)


def _max_timestamp(batch: RecordBatch) -> int:
    """Return the latest timestamp of the records (MemoryRecordsBuilder); the batch's for LogAppendTime or without records."""
    if batch.attributes & LOG_APPEND_TIME or not batch.records:
        return -1 if batch.max_timestamp is None else batch.max_timestamp
    return max(record.timestamp for record in batch.records)


def _write_messages(batch: RecordBatch) -> bytes:
    """Encode messages of magic 0 or 1, separately or together in a wrapper."""
    attributes = batch.attributes & OF_LEGACY & ~7 if batch.magic == 1 else 0
    if batch.codec == Codec.NONE:
        return b"".join(encode_message(r, r.offset, r.timestamp, batch.magic, attributes) for r in batch.records)
    if not batch.records:
        return b""  # a wrapper cannot be empty, and messages have no other place for their offsets
    base = batch.records[0].offset if batch.magic == 1 else 0
    inner = b"".join(_inner_message(r, r.offset - base, batch.magic, attributes) for r in batch.records)
    wrapper = Record(value=compress(Codec(batch.codec), inner, batch.magic))
    last, timestamp = batch.records[-1].offset, _max_timestamp(batch)
    return encode_message(wrapper, last, timestamp, batch.magic, attributes | batch.codec)


def _inner_message(record: Record, offset: int, magic: int, attributes: int) -> bytes:
    timestamp = record.create_timestamp if attributes & LOG_APPEND_TIME else record.timestamp
    return encode_message(record, offset, timestamp, magic, attributes)


SIZE_AT, MAGIC_AT, CRC_AT = 8, 16, 17
COUNT_SIZE = 4  # at the end of the header

Change = Callable[[bytes], bytes | None]
ChangeRecord = Callable[[Record], bool | None]


def with_header_of(raw: bytes, records: bytes, count: int | None = None) -> bytes:
    """Return a batch of magic 2 with the header that *raw* begins with, and these (already compressed) records.

    *count*: of records, if it is another.
    """
    size = (HEADER.size - LOG_OVERHEAD + len(records)).to_bytes(4, "big")
    head = raw[COVERED_AT : HEADER.size]
    if count is not None:
        head = head[:-COUNT_SIZE] + count.to_bytes(COUNT_SIZE, "big")
    crc = crc32c(records, crc32c(head)).to_bytes(4, "big")
    return b"".join((raw[:SIZE_AT], size, raw[LOG_OVERHEAD:CRC_AT], crc, head, records))


def change_plain(batch: Batch, change: Change) -> bytes | None:
    """Return a batch of magic 2 after *change* of its decompressed records.

    None if the batch cannot be changed, or *change* returns None. Raises TooLarge.
    """
    if batch.magic != 2 or batch.attributes & CONTROL or batch.codec not in CODECS or not batch.crc_valid:
        return None
    raw = batch.raw
    unpacked = decompress(batch.codec, memoryview(raw)[HEADER.size :])
    if unpacked.skipped is not None:
        raise TooLarge(unpacked.skipped)
    if unpacked.error is not None:
        return None
    changed = change(bytes(unpacked.data))
    return None if changed is None else with_header_of(raw, compress(Codec(batch.codec), changed))


def change_fields(
    batch: Batch,
    values: Editor | None,
    keys: Editor | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    headers: HeaderEditor | None = None,
    zstd_level: int = 3,
    into: FrameEdit | None = None,
    most: int = 0,
) -> bytes | None:
    """Return a batch of any magic after its values, keys and headers were edited; its own bytes if none was changed.

    None if it cannot be read to its end or its CRC is wrong. Control batches are not changed. With *into*, b"" if it was written
    there, or stays. *most*: bytes that the records may take before they are compressed. Raises TooLarge.
    """
    if not batch.crc_valid:
        return None
    if batch.magic < 2:
        return change_records(batch, lambda record: _edit(record, values, keys), limits)
    if batch.attributes & CONTROL:
        return _same(batch, into)
    opened = batch.open(limits)
    if opened.skipped is not None:
        raise TooLarge(opened.skipped)
    is_plain = batch.codec == Codec.NONE
    try:
        in_frame = into if is_plain else None
        changed = replace_fields(opened, values, keys, headers, with_header=is_plain, into=in_frame, most=most)
    except Malformed:
        return None
    if changed is None or is_plain:
        return _same(batch, into) if changed is None else changed
    header = batch.data[batch.position : batch.position + HEADER.size]
    return with_header_of(header, compress(Codec(batch.codec), changed, zstd_level=zstd_level))


def _same(batch: Batch, into: FrameEdit | None) -> bytes:
    return batch.raw if into is None else b""


def _edit(record: Record, values: Editor | None, keys: Editor | None) -> bool:
    value = values.edited(record.value, record.key) if values is not None and record.value is not None else None
    key = keys.edited(record.key) if keys is not None and record.key is not None else None
    record.value = record.value if value is None else value
    record.key = record.key if key is None else key
    return value is not None or key is not None


def change_records(batch: Batch, change: ChangeRecord, limits: Limits = DEFAULT_LIMITS) -> bytes | None:
    """Return a batch of any magic after *change*, which is called with each record, may edit it and returns whether it did.

    Records for which it returns None are left out; the batch keeps its offsets, as after compaction. The same bytes if no record
    was changed. None if it cannot be read to its end or its CRC is wrong. Control batches are not changed. Raises TooLarge.
    """
    read = read_batch(batch.open(limits))
    if read.error is not None or not batch.crc_valid:
        return None
    if read.skipped is not None:
        raise TooLarge(read.skipped)
    changes = [] if read.is_control else [change(record) for record in read.records]
    if not any(changed is not False for changed in changes):
        return batch.raw
    read.records = [record for record, changed in zip(read.records, changes, strict=True) if changed is not None]
    return _written(read, batch.raw)


def _written(changed: RecordBatch, raw: bytes) -> bytes | None:
    changed.source = None
    try:
        written = write_batches([changed])
    except EncodeError:
        return None
    return with_header_of(raw, written[HEADER.size :], len(changed.records)) if raw[MAGIC_AT] == 2 else written
