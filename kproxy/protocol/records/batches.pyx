# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read batch headers directly from the bytes, without decompression or copies.

For magic 0 and 1, every plain message is a batch of one, and a compressed wrapper is one batch.
"""

import zlib

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from kproxy.protocol.json_sink cimport put_int, put_word
from kproxy.protocol.records.shape cimport (
    BATCH_HEADER, begin_plain, begin_wrapper, codec_of, FAULT_ENDED_EARLY, FAULT_HEADER_COUNT, FAULT_HEADER_KEY,
    FAULT_INNER_COMPRESSED, FAULT_INNER_MAGIC, FAULT_INNER_NONE, FAULT_INNER_OFFSET, FAULT_INNER_SIZE, FAULT_LEFT_OVER,
    FAULT_RECORD_COUNT, FAULT_RECORD_END, FAULT_RECORD_SIZE, LOG_OVERHEAD, MESSAGE_CRC, read_message, RecordShape, Walker,
    whole_batch,
)  # fmt: skip
from kproxy.protocol.wire cimport be16, be32, be64, Buffer, FAULT_COUNT, FAULT_VARINT, put8

from kproxy.errors import Malformed
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.records.compression import Codec, decompress
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits

cdef enum:
    MAGIC_AT = 16  # what the CRC of magic 0 and 1 covers begins here
    CRC_AT_2 = 17
    COVERED_AT_2 = 21  # what the CRC of magic 2 covers begins at the attributes
    UNKNOWN = -1
    KNOWN_ATTRIBUTES = 0x7F
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40

cdef tuple CODEC_NAMES = tuple([codec.name.lower() for codec in Codec])  # by number, which has no gaps
cdef tuple CODECS_JSON = tuple([f'"{name}"'.encode() for name in CODEC_NAMES])
cdef int CODECS = len(CODEC_NAMES)


cdef class Batch:
    """The header of the batch at *position*. Fields that its magic lacks are None; -1 is Kafka's own value for none.

    Raises Malformed if there is no complete batch.
    """

    def __init__(self, bytes data not None, Py_ssize_t position):
        cdef int magic = 0
        cdef Py_ssize_t size
        if not 0 <= position <= PyBytes_GET_SIZE(data):
            raise IndexError(f"position {position} is not within {len(data)} bytes")
        size = whole_batch(<const uint8_t *>PyBytes_AS_STRING(data) + position, len(data) - position, &magic)
        if size == 0:
            raise Malformed("no complete batch is there", position=position)
        fill(self, data, position, size, magic)

    def __repr__(self):
        return f"<Batch magic={self.magic} last_offset={self.last_offset} size={self.size} position={self.position}>"

    @property
    def raw(self) -> bytes:
        """The bytes of the batch, including offset and size."""
        return self.data[self.position : self.position + self.size]

    @property
    def base_offset(self) -> int | None:
        """The first offset; None for a wrapper, whose first offset is inside it."""
        return None if self.is_wrapper else <int64_t>be64(self.at)

    @property
    def last_offset(self) -> int:
        if self.magic < 2:
            return <int64_t>be64(self.at)
        return <int64_t>(be64(self.at) + <int64_t><int32_t>be32(self.at + 23))

    @property
    def crc(self) -> int:
        """The checksum in the header, unsigned."""
        return be32(self.at + (MESSAGE_CRC if self.magic < 2 else CRC_AT_2))

    @property
    def computed_crc(self) -> int:
        """The checksum of the bytes: CRC-32, or CRC-32C for magic 2 (KIP-98)."""
        cdef Py_ssize_t end = self.position + self.size
        if self.magic < 2:
            return zlib.crc32(memoryview(self.data)[self.position + MAGIC_AT : end])
        return crc32c(memoryview(self.data)[self.position + COVERED_AT_2 : end])

    @property
    def crc_valid(self) -> bool:
        return self.has_valid_crc()

    @property
    def attributes(self) -> int:
        """Unsigned: int8 for magic 0 and 1, int16 for 2."""
        return self.at[MAGIC_AT + 1] if self.magic < 2 else be16(self.at + COVERED_AT_2)

    @property
    def codec(self) -> int:
        """Bits 0 to 2 of the attributes, even if they are not a codec."""
        return self.attributes & 7

    @property
    def compression(self) -> str | None:
        """Kafka's name of the codec; None for an unknown number."""
        cdef int codec = self.attributes & 7
        return CODEC_NAMES[codec] if codec < CODECS else None

    @property
    def is_wrapper(self) -> bool:
        """Whether it is a compressed message of magic 0 or 1, with messages in it."""
        return self.magic < 2 and self.at[MAGIC_AT + 1] & 7 != 0

    @property
    def timestamp_type(self) -> str:
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & 8 else "CreateTime"

    @property
    def max_timestamp(self) -> int | None:
        """Milliseconds; the message's timestamp for magic 1, None for magic 0."""
        if self.magic == 0:
            return None
        return <int64_t>be64(self.at + (18 if self.magic == 1 else 35))

    @property
    def count(self) -> int | None:
        """Number of records according to the header; None for a wrapper."""
        if self.magic == 2:
            return <int32_t>be32(self.at + 57)
        return None if self.is_wrapper else 1

    @property
    def partition_leader_epoch(self) -> int | None:
        return <int32_t>be32(self.at + 12) if self.magic == 2 else None

    @property
    def last_offset_delta(self) -> int | None:
        return <int32_t>be32(self.at + 23) if self.magic == 2 else None

    @property
    def base_timestamp(self) -> int | None:
        """Milliseconds: the base of the records' relative timestamps; or the delete horizon, if there is one."""
        return <int64_t>be64(self.at + 27) if self.magic == 2 else None

    @property
    def producer_id(self) -> int | None:
        return <int64_t>be64(self.at + 43) if self.magic == 2 else None

    @property
    def producer_epoch(self) -> int | None:
        return <int16_t>be16(self.at + 51) if self.magic == 2 else None

    @property
    def base_sequence(self) -> int | None:
        return <int32_t>be32(self.at + 53) if self.magic == 2 else None

    @property
    def producer(self) -> tuple[int, int, int, int]:
        """(partition_leader_epoch, producer_id, producer_epoch, base_sequence), all -1 for magic 0 and 1."""
        if self.magic < 2:
            return -1, -1, -1, -1
        return self.partition_leader_epoch, self.producer_id, self.producer_epoch, self.base_sequence

    @property
    def last_sequence(self) -> int | None:
        """The sequence number of the last record: base_sequence plus last_offset_delta; -1 (none) if base_sequence is -1."""
        if self.magic < 2:
            return None
        return sequence_after(<int32_t>be32(self.at + 53), <int32_t>be32(self.at + 23))

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """Milliseconds from which on its tombstones and markers may be removed (KIP-534); None without a horizon."""
        return self.base_timestamp if self.magic == 2 and self.attributes & DELETE_HORIZON else None

    cdef bint has_valid_crc(self) except -1:
        cdef uint32_t stored
        if self.crc_state == UNKNOWN:
            stored = be32(self.at + (MESSAGE_CRC if self.magic < 2 else CRC_AT_2))
            self.crc_state = <uint32_t>self.computed_crc == stored
        return self.crc_state == 1

    def open(self, limits: Limits = DEFAULT_LIMITS) -> OpenBatch:
        """Decompress the batch under *limits* and prepare its records for walking."""
        return open_batch(self, limits)


cdef int fill(Batch batch, bytes data, Py_ssize_t position, Py_ssize_t size, int magic) except -1:
    batch.data = data
    batch.position = position
    batch.size = size
    batch.magic = magic
    batch.at = <const uint8_t *>PyBytes_AS_STRING(data) + position
    batch.crc_state = UNKNOWN
    return 0


cpdef int sequence_after(int base_sequence, int delta):
    """Return the sequence number *delta* records later, wrapping to 0 (DefaultRecordBatch.incrementSequence); -1 for none."""
    if base_sequence == -1:
        return -1
    cdef int32_t room = <int32_t>(<uint32_t>0x7FFFFFFF - <uint32_t>delta)
    if base_sequence > room:
        return <int32_t>(<uint32_t>delta - (<uint32_t>0x7FFFFFFF - <uint32_t>base_sequence) - 1)
    return <int32_t>(<uint32_t>base_sequence + <uint32_t>delta)


def next_batch(
    bytes data not None, Py_ssize_t position, list out not None: list[Batch], Py_ssize_t most, Py_ssize_t end=-1,
) -> int:
    """Append at most *most* batches from *position* on to *out*; return the position of the first incomplete one.

    *end*: where the field ends; -1: with *data*.
    """
    cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size
    cdef int magic = 0
    cdef Batch batch
    if end < 0:
        end = PyBytes_GET_SIZE(data)
    if not 0 <= position <= end <= PyBytes_GET_SIZE(data):
        raise IndexError(f"position {position} is not within {end} bytes")
    while most > 0:
        size = whole_batch(base + position, end - position, &magic)
        if size == 0:
            break
        batch = Batch.__new__(Batch)
        fill(batch, data, position, size, magic)
        out.append(batch)
        position += size
        most -= 1
    return position


def headers_json(bytes data not None, Py_ssize_t position, Py_ssize_t most) -> tuple[bytes, int | None]:
    """Return the headers of the batches from *position* on, at most *most*, as a JSON array with the names of Kafka's classes.

    The producer's fields are there only if there is a producer. A compressed message of magic 0 or 1 has no base offset (null):
    only its inner messages do. Also return the number of records, if these are complete batches of magic 2 with records of
    clients and nothing follows them; else None.
    """
    cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t size
    cdef int magic = 0
    cdef bint is_usual = True
    cdef int64_t count = 0
    cdef Batch batch = Batch.__new__(Batch)
    cdef Buffer out
    if not 0 <= position <= end:
        raise IndexError(f"position {position} is not within {end} bytes")
    memset(&out, 0, sizeof(Buffer))
    try:
        while most > 0:
            size = whole_batch(base + position, end - position, &magic)
            if size == 0:
                break
            fill(batch, data, position, size, magic)
            put_header(&out, batch)
            is_usual &= magic == 2 and not batch.is_control
            count += max(0, <int32_t>be32(batch.at + 57)) if magic == 2 else 0
            position += size
            most -= 1
        is_usual &= position == end
        if out.size:
            out.data[0] = b"["
        else:
            put8(&out, b"[")
        put8(&out, b"]")
        return PyBytes_FromStringAndSize(<char *>out.data, out.size), count if is_usual else None
    finally:
        free(out.data)


cdef int put_header(Buffer *out, Batch batch) except -1:
    """Write a comma and the header as an object."""
    cdef const uint8_t *at = batch.at
    cdef int codec = codec_of(at, batch.magic)
    cdef bint is_wrapper = batch.magic < 2 and codec != 0
    put_word(out, b',{"baseOffset":null' if is_wrapper else b',{"baseOffset":')
    if not is_wrapper:
        put_int(out, <int64_t>be64(at))
    put_field(out, b',"lastOffset":', batch.last_offset)
    put_field(out, b',"sizeInBytes":', batch.size)
    put_field(out, b',"magic":', batch.magic)
    put_word(out, b',"crcValid":true' if batch.has_valid_crc() else b',"crcValid":false')
    put_word(out, b',"compression":')
    put_word(out, <bytes>CODECS_JSON[codec] if codec < CODECS else b"null")
    put_word(out, b',"timestampType":"')
    put_word(out, (<str>batch.timestamp_type).encode())
    put8(out, b'"')
    if batch.magic == 2:
        put_field(out, b',"maxTimestamp":', <int64_t>be64(at + 35))
        put_field(out, b',"count":', <int32_t>be32(at + 57))
        put_field(out, b',"partitionLeaderEpoch":', <int32_t>be32(at + 12))
        put_word(out, b',"isTransactional":true' if batch.is_transactional else b',"isTransactional":false')
        put_word(out, b',"isControl":true' if batch.is_control else b',"isControl":false')
    if codec >= CODECS:
        put_field(out, b',"codec":', codec)
    if batch.magic == 1:
        put_field(out, b',"maxTimestamp":', <int64_t>be64(at + 18))
    if batch.magic == 2 and <int64_t>be64(at + 43) != -1:
        put_field(out, b',"producerId":', <int64_t>be64(at + 43))
        put_field(out, b',"producerEpoch":', <int16_t>be16(at + 51))
        put_field(out, b',"baseSequence":', <int32_t>be32(at + 53))
    if batch.magic == 2 and be16(at + COVERED_AT_2) & DELETE_HORIZON:
        put_field(out, b',"deleteHorizonMs":', <int64_t>be64(at + 27))
    return put8(out, b"}")


cdef int put_field(Buffer *out, const char *name, int64_t value) except -1:
    put_word(out, name)
    return put_int(out, value)


def count_plain(bytes data not None, Py_ssize_t position=0) -> tuple[int, int]:
    """Count records from *position* on without decompression; return the count and the position where it ended.

    It ends at a wrapper, or at the first bytes that are not a complete batch.
    """
    cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t size
    cdef int magic = 0
    cdef int64_t count = 0
    if not 0 <= position <= end:
        raise IndexError(f"position {position} is not within {end} bytes")
    while True:
        size = whole_batch(base + position, end - position, &magic)
        if size == 0 or (magic < 2 and codec_of(base + position, magic)):
            break
        count += max(0, <int32_t>be32(base + position + 57)) if magic == 2 else 1
        position += size
    return count, position


def find_header(bytes data not None, Py_ssize_t position) -> int:
    """Return the position of the first consistent header of magic 2 from *position* on; -1 if there is none."""
    cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *at
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef int32_t count, last_offset_delta
    while 0 <= position <= end - BATCH_HEADER:
        at = base + position
        if at[MAGIC_AT] == 2 and not be16(at + COVERED_AT_2) & ~KNOWN_ATTRIBUTES and at[22] & 7 < 5:
            count = <int32_t>be32(at + 57)
            last_offset_delta = <int32_t>be32(at + 23)
            if 0 <= count <= <int64_t>last_offset_delta + 1 and <int64_t>be64(at) >= 0:
                if <int32_t>be32(at + 8) >= BATCH_HEADER - LOG_OVERHEAD:
                    return position
        position += 1
    return -1


cdef class OpenBatch:
    """A batch whose records can be walked.

    ``error``: why they cannot be walked to the end (broken compressed bytes, or a wrapper that Kafka refuses); ``skipped``: the
    limit that prevented decompression.
    """

    def __dealloc__(self):
        if self.view.buf != NULL:
            PyBuffer_Release(&self.view)

    @property
    def base_offset(self) -> int | None:
        """The first offset; for a wrapper that of its first message, or None if unknown."""
        cdef const uint8_t *at = self.walker.c.at
        if not self.batch.is_wrapper:
            return self.batch.base_offset
        if not self.walker.wrapped or self.walker.left == 0 or codec_of(at, 0):
            return None
        return <int64_t>(be64(at) + <uint64_t>self.walker.base_offset)

    @property
    def unpacked_size(self) -> int:
        """Size of the decompressed records; 0 if they were not compressed."""
        return 0 if self.content is self.batch.data else self.view.len

    @property
    def claimed(self) -> int:
        """Number of records not yet walked, from the header or counted in a wrapper; bounded by the limit."""
        return min(self.walker.left, self.most)

    cdef str fault(self, const Walker *w, int64_t index):
        """Return a sentence about the fault in record number *index*, where a walk stopped."""
        cdef str reason = fault_text(w.c.fault, w.c.needed, w.c.left)
        cdef str place = "of the field" if self.content is self.batch.data else "of the decompressed records"
        if self.error is not None:
            return f"record {index}: {reason}: {self.error}"
        return f"record {index}: {reason} (at byte {w.c.at - self.base} {place})"


cdef OpenBatch open_batch(Batch batch, object limits):
    cdef OpenBatch opened = OpenBatch.__new__(OpenBatch)
    cdef int codec = codec_of(batch.at, batch.magic)
    opened.batch = batch
    opened.most = limits.records
    point_at(opened, batch.data)
    begin_plain(&opened.walker, opened.base, batch.at, batch.size, batch.magic)
    if batch.magic == 2:
        begin_batch(opened, codec, limits)
    elif codec:
        begin_wrapped(opened, codec, limits)
    if opened.skipped is not None:
        opened.walker.left = 0
    return opened


cdef int begin_batch(OpenBatch opened, int codec, object limits) except -1:
    """Begin a batch of magic 2; if its count is 0, nothing else is read (DefaultRecordBatch.iterator)."""
    cdef Walker *w = &opened.walker
    if w.left < 0:
        opened.error = fault_text(FAULT_RECORD_COUNT, w.left, 0)
        w.left = 0
    elif w.left > opened.most:
        opened.skipped = f"claims {w.left:,} records, over {opened.most:,}"
    elif w.left and codec:
        unpack(opened, codec, limits)
        if w.broken and w.c.at == w.c.limit:
            w.left = 0
    return 0


cdef int begin_wrapped(OpenBatch opened, int codec, object limits) except -1:
    """Open a compressed message of magic 0 or 1; if it is broken anywhere, none of its messages can be read, as in Kafka."""
    cdef Walker *w = &opened.walker
    cdef RecordShape shape
    cdef int magic
    w.left = 0
    memset(&shape, 0, sizeof(RecordShape))
    if read_message(&w.c, &magic, &shape) < 0:
        opened.error = fault_text(w.c.fault, w.c.needed, w.c.left)
    elif shape.value_size < 0:
        opened.error = "a compressed message without a value"
    else:
        w.c.at = shape.value
        w.c.limit = shape.value + shape.value_size
        unpack(opened, codec, limits)
        if opened.error is None and opened.skipped is None:
            if begin_wrapper(w, w.base_offset) < 0:
                opened.error = fault_text(w.c.fault, w.c.needed, w.c.left)
                w.left = 0
            elif w.left > opened.most:
                opened.skipped = f"holds {w.left:,} messages, over {opened.most:,}"
    return 0


cdef int unpack(OpenBatch opened, int codec, object limits) except -1:
    """Decompress the bytes at the walker, and point it at the result."""
    cdef Walker *w = &opened.walker
    cdef Py_ssize_t start = w.c.at - opened.base
    cdef Py_ssize_t limit = w.c.limit - opened.base
    unpacked = decompress(codec, memoryview(opened.batch.data)[start:limit], opened.batch.magic, limits)
    opened.error = unpacked.error
    opened.skipped = unpacked.skipped
    point_at(opened, unpacked.data)
    w.broken = unpacked.error is not None
    w.c.base = w.c.at = opened.base
    w.c.limit = opened.base + opened.view.len
    return 0


cdef int point_at(OpenBatch opened, object content) except -1:
    """Point the walker at *content*, and hold its memory."""
    if opened.view.buf != NULL:
        PyBuffer_Release(&opened.view)
    PyObject_GetBuffer(content, &opened.view, PyBUF_SIMPLE)
    opened.content = content
    opened.base = <const uint8_t *>opened.view.buf
    return 0


cdef str fault_text(int fault, int64_t needed, int64_t left):
    if fault == FAULT_COUNT:
        return f"claims {needed} headers, more than the {left} bytes left can hold"
    if fault == FAULT_VARINT:
        return f"a varint of more than {needed} bytes"
    if fault == FAULT_RECORD_SIZE:
        return f"a record of {needed} bytes"
    if fault == FAULT_RECORD_END:
        return f"its fields end {left} bytes before its size says"
    if fault == FAULT_HEADER_COUNT:
        return f"claims {needed} headers"
    if fault == FAULT_HEADER_KEY:
        return "a header without a key"
    if fault == FAULT_RECORD_COUNT:
        return f"claims {needed} records"
    if fault == FAULT_ENDED_EARLY:
        return f"the batch ends {needed} records before its count says"
    if fault == FAULT_LEFT_OVER:
        return f"{left} bytes are left over behind the last record"
    if fault == FAULT_INNER_SIZE:
        return f"an inner message of {needed} bytes"
    if fault == FAULT_INNER_MAGIC:
        return f"a message of magic {needed}"
    if fault == FAULT_INNER_COMPRESSED:
        return f"an inner message that is compressed (codec {needed})"
    if fault == FAULT_INNER_NONE:
        return "a compressed message without messages in it"
    if fault == FAULT_INNER_OFFSET:
        return f"its offset is below that of its last message, {needed}"
    return f"needs {needed} bytes, {left} left"
