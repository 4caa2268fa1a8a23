# cython: language_level=3
"""The only parser of records: steps through a batch of any magic, record by record, without copies.

A Walker begins at the decompressed bytes of one batch, and ``next_record`` never reads outside them. Objects, Arrow columns and
counts all use it, so they see the same records and the same faults.

Sources: DefaultRecord and DefaultRecordBatch for magic 2, LegacyRecord and AbstractLegacyRecordBatch for 0 and 1. Broken bytes
are treated as by their iterators.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t

from kproxy.protocol.wire cimport be32, be64, Cursor, fail, FAULT_COUNT, FAULT_SHORT, FAULT_VARINT, need, read_uvarint

cdef enum RecordFault:  # continues Fault of wire.pxd
    FAULT_RECORD_SIZE = 32  # a negative size
    FAULT_RECORD_END = 33  # the record's fields end elsewhere than its size says
    FAULT_HEADER_COUNT = 34  # a negative count
    FAULT_HEADER_KEY = 35  # a null key
    FAULT_RECORD_COUNT = 36  # a negative count
    FAULT_ENDED_EARLY = 37  # fewer records than the batch claims
    FAULT_LEFT_OVER = 38  # bytes behind the last record that the batch claims
    FAULT_INNER_SIZE = 39
    FAULT_INNER_MAGIC = 40
    FAULT_INNER_COMPRESSED = 41
    FAULT_INNER_NONE = 42
    FAULT_INNER_OFFSET = 43  # the wrapper's offset is below that of its last message

cdef enum:
    LOG_OVERHEAD = 12  # offset int64, size int32: before every entry of any magic
    UP_TO_MAGIC = 17  # bytes up to and including the magic, in every format
    LEAST_MESSAGE = 14  # LegacyRecord.RECORD_OVERHEAD_V0
    MESSAGE_CRC = 12  # position of the CRC in a message of magic 0 or 1
    BATCH_HEADER = 61  # of magic 2, up to the records
    LEAST_RECORD = 7  # bytes of the shortest record of magic 2, its size included
    LEAST_HEADER = 2


cdef struct RecordShape:
    int64_t offset
    int64_t timestamp
    int64_t create_timestamp  # the producer's; differs from timestamp only if that is the broker's append time
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers  # the first one
    const uint8_t *end
    int32_t key_size  # -1: null
    int32_t value_size  # -1: null
    int32_t header_count
    int32_t offset_delta
    int8_t attributes


cdef struct HeaderShape:
    const uint8_t *key
    const uint8_t *value
    int32_t key_size
    int32_t value_size  # -1: null


cdef struct Walker:
    Cursor c
    int magic
    bint wrapped  # whether these are the inner messages of a compressed message of magic 0 or 1
    bint append  # LogAppendTime: append_time is every record's timestamp
    bint broken  # whether the compressed bytes are broken behind these records
    int64_t left  # claimed number of further records
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time


cdef inline int64_t whole_batch(const uint8_t *at, int64_t left, int *magic) noexcept nogil:
    """Return the size of the complete batch at *at*, with *left* bytes to the field's end; 0 if there is none."""
    cdef int64_t size
    if left < LOG_OVERHEAD + LEAST_MESSAGE:
        return 0
    size = <int64_t><int32_t>be32(at + 8) + LOG_OVERHEAD
    magic[0] = <int8_t>at[UP_TO_MAGIC - 1]
    if size < LOG_OVERHEAD + LEAST_MESSAGE or size > left or not 0 <= magic[0] <= 2:
        return 0
    return 0 if magic[0] == 2 and size < BATCH_HEADER else size


cdef inline int codec_of(const uint8_t *at, int magic) noexcept nogil:
    """Return bits 0 to 2 of the attributes of a complete batch."""
    return at[UP_TO_MAGIC if magic < 2 else 22] & 7


cdef inline void begin_plain(Walker *w, const uint8_t *base, const uint8_t *at, int64_t size, int magic) noexcept nogil:
    """Point the walker at the first record of a complete batch, assuming that it is not compressed."""
    w.c.base = base
    w.c.limit = at + size
    w.c.fault = 0
    w.magic = magic
    w.wrapped = w.broken = False
    w.base_offset = <int64_t>be64(at)
    if magic == 2:
        w.c.at = at + BATCH_HEADER
        w.append = at[22] & 8 != 0
        w.base_timestamp = <int64_t>be64(at + 27)
        w.append_time = <int64_t>be64(at + 35)
        w.left = <int32_t>be32(at + 57)
    else:
        w.c.at = at + MESSAGE_CRC
        w.append = magic == 1 and at[UP_TO_MAGIC] & 8 != 0
        w.append_time = <int64_t>be64(at + 18)
        w.left = 1


cdef inline int read_varint(Cursor *c, int32_t *out) noexcept nogil:
    """Read a VARINT: zig-zag, at most five bytes."""
    cdef uint32_t value
    if c.at < c.limit and c.at[0] < 0x80:
        value = c.at[0]
        c.at += 1
    elif read_uvarint(c, &value) < 0:
        return -1
    out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
    return 0


cdef inline int read_varlong(Cursor *c, int64_t *out) noexcept nogil:
    """Read a VARLONG: zig-zag, at most ten bytes; bits beyond the 64th are dropped, as in Kafka's ByteUtils."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    cdef const uint8_t *at = c.at
    while at < c.limit:
        byte = at[0]
        at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            c.at = at
            out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            return 0
        shift += 7
        if shift > 63:
            return fail(c, FAULT_VARINT, 10)
    return fail(c, FAULT_SHORT, at - c.at + 1)


cdef inline int read_sized(Cursor *c, const uint8_t **start, int32_t *size) noexcept nogil:
    """Read bytes behind a varint size; any negative size is null and becomes -1."""
    if read_varint(c, size) < 0:
        return -1
    start[0] = c.at
    if size[0] < 0:
        size[0] = -1
        return 0
    if c.limit - c.at < size[0]:
        return fail(c, FAULT_SHORT, size[0])
    c.at += size[0]
    return 0


cdef inline int read_header(Cursor *c, HeaderShape *h) noexcept nogil:
    if read_sized(c, &h.key, &h.key_size) < 0:
        return -1
    if h.key_size < 0:
        return fail(c, FAULT_HEADER_KEY, 0)
    return read_sized(c, &h.value, &h.value_size)


cdef inline int read_body(Walker *w, RecordShape *r) noexcept nogil:
    """Read a record of magic 2 behind its size, up to its headers; the cursor's limit is the record's end."""
    cdef Cursor *c = &w.c
    cdef int64_t timestamp_delta
    if need(c, 1) < 0:
        return -1
    r.attributes = <int8_t>c.at[0]
    c.at += 1
    if read_varlong(c, &timestamp_delta) < 0 or read_varint(c, &r.offset_delta) < 0:
        return -1
    r.offset = <int64_t>(<uint64_t>w.base_offset + <uint64_t><int64_t>r.offset_delta)
    r.create_timestamp = <int64_t>(<uint64_t>w.base_timestamp + <uint64_t>timestamp_delta)
    r.timestamp = w.append_time if w.append else r.create_timestamp
    if read_sized(c, &r.key, &r.key_size) < 0 or read_sized(c, &r.value, &r.value_size) < 0:
        return -1
    if read_varint(c, &r.header_count) < 0:
        return -1
    if r.header_count < 0:
        return fail(c, FAULT_HEADER_COUNT, r.header_count)
    if r.header_count > (c.limit - c.at) // LEAST_HEADER:
        return fail(c, FAULT_COUNT, r.header_count)
    r.headers = c.at
    return 0


cdef inline int read_record(Walker *w, RecordShape *r) noexcept nogil:
    """Read a record of magic 2, which must fill its size exactly."""
    cdef Cursor *c = &w.c
    cdef const uint8_t *limit = c.limit
    cdef HeaderShape header
    cdef int32_t size, _
    if read_varint(c, &size) < 0:
        return -1
    if size < 0:
        return fail(c, FAULT_RECORD_SIZE, size)
    if need(c, size) < 0:
        return -1
    r.end = c.limit = c.at + size
    if read_body(w, r) < 0:
        return -1
    for _ in range(r.header_count):
        if read_header(c, &header) < 0:
            return -1
    if c.at != r.end:
        return fail(c, FAULT_RECORD_END, 0)
    c.limit = limit
    return 0


cdef inline int read_field(Cursor *c, const uint8_t **start, int32_t *size) noexcept nogil:
    """Read bytes behind an int32 size; any negative size is null and becomes -1."""
    if need(c, 4) < 0:
        return -1
    size[0] = <int32_t>be32(c.at)
    c.at += 4
    start[0] = c.at
    if size[0] < 0:
        size[0] = -1
        return 0
    if need(c, size[0]) < 0:
        return -1
    c.at += size[0]
    return 0


cdef inline int read_message(Cursor *c, int *magic, RecordShape *r) noexcept nogil:
    """Read a message of magic 0 or 1 from its CRC on; bytes behind its value are ignored, as in Kafka."""
    if need(c, 6) < 0:
        return -1
    magic[0] = <int8_t>c.at[4]
    r.attributes = <int8_t>c.at[5]
    r.timestamp = r.create_timestamp = -1
    r.offset_delta = 0
    r.header_count = 0
    if not 0 <= magic[0] <= 1:
        return fail(c, FAULT_INNER_MAGIC, magic[0])
    c.at += 6
    if magic[0] == 1:
        if need(c, 8) < 0:
            return -1
        r.timestamp = r.create_timestamp = <int64_t>be64(c.at)
        c.at += 8
    if read_field(c, &r.key, &r.key_size) < 0:
        return -1
    return read_field(c, &r.value, &r.value_size)


cdef inline int next_message(Walker *w, RecordShape *r) noexcept nogil:
    """Read the next inner message of a wrapper, whose entries begin_wrapper has checked."""
    cdef Cursor *c = &w.c
    cdef const uint8_t *limit = c.limit
    cdef int magic
    cdef int32_t size
    if need(c, LOG_OVERHEAD) < 0:
        return -1
    r.offset = <int64_t>(be64(c.at) + <uint64_t>w.base_offset)
    size = <int32_t>be32(c.at + 8)
    if size < LEAST_MESSAGE:
        return fail(c, FAULT_INNER_SIZE, size)
    c.at += LOG_OVERHEAD
    if need(c, size) < 0:
        return -1
    if c.at[5] & 7:
        return fail(c, FAULT_INNER_COMPRESSED, c.at[5] & 7)
    r.end = c.limit = c.at + size
    if read_message(c, &magic, r) < 0:
        return -1
    if w.append and magic == 1:
        r.timestamp = w.append_time
    c.at = r.end
    c.limit = limit
    return 0


cdef inline int next_record(Walker *w, RecordShape *r) noexcept nogil:
    """Read the next record into *r*; return 1, or 0 at the end, or -1 at a fault, which the cursor has.

    A last record that other bytes follow is not returned, as Kafka checks this first.
    """
    cdef int magic
    if w.left == 0:
        return 0
    w.left -= 1
    if w.magic < 2:
        if w.wrapped:
            return 1 if next_message(w, r) == 0 else -1
        r.offset = w.base_offset
        return 1 if read_message(&w.c, &magic, r) == 0 else -1
    if w.c.at == w.c.limit:
        return fail(&w.c, FAULT_ENDED_EARLY, w.left + 1)
    if read_record(w, r) < 0:
        return -1
    if w.left == 0 and (w.c.at != w.c.limit or w.broken):
        return fail(&w.c, FAULT_LEFT_OVER, 0)
    return 1


cdef inline int begin_wrapper(Walker *w, int64_t wrapper_offset) noexcept nogil:
    """Count the inner messages and find the base of their offsets; return -1 if Kafka would refuse the wrapper.

    Magic 0 has absolute inner offsets. Magic 1 has relative ones, unless the wrapper's offset is 0, as librdkafka's producer
    leaves it to the broker (DeepRecordsIterator). An incomplete last message is dropped silently.
    """
    cdef Cursor *c = &w.c
    cdef const uint8_t *at = c.at
    cdef int64_t last = 0
    cdef int32_t size
    w.left = 0
    w.wrapped = True
    w.base_offset = 0
    while c.limit - at >= LOG_OVERHEAD:
        size = <int32_t>be32(at + 8)
        if size < LEAST_MESSAGE:
            c.at = at
            return fail(c, FAULT_INNER_SIZE, size)
        if c.limit - at - LOG_OVERHEAD < size:
            break
        last = <int64_t>be64(at)
        at += LOG_OVERHEAD + size
        w.left += 1
    if w.left == 0:
        return fail(c, FAULT_INNER_NONE, 0)
    if w.magic == 1 and wrapper_offset != 0:
        if wrapper_offset < last:
            return fail(c, FAULT_INNER_OFFSET, last)
        w.base_offset = <int64_t>(<uint64_t>wrapper_offset - <uint64_t>last)
    return 0
