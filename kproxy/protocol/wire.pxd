# cython: language_level=3
"""Bounds-checked readers of Kafka's primitive types, and the buffer that writers grow.

The one contract: a reader looks at nothing at or past ``limit``, moves ``at`` only over what it has checked, and says
what was wrong by a fault code and -1. Nothing else in the protocol room dereferences a pointer into wire bytes.
Sizes on the wire are untrusted 32-bit numbers; the ones Java reads as int are read as int here, so that both agree.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint16_t kp_be16(const uint8_t *p) { uint16_t x; memcpy(&x, p, 2); return __builtin_bswap16(x); }
    static inline uint32_t kp_be32(const uint8_t *p) { uint32_t x; memcpy(&x, p, 4); return __builtin_bswap32(x); }
    static inline uint64_t kp_be64(const uint8_t *p) { uint64_t x; memcpy(&x, p, 8); return __builtin_bswap64(x); }
    static inline double kp_bef64(const uint8_t *p) { uint64_t x = kp_be64(p); double d; memcpy(&d, &x, 8); return d; }
    static inline uint64_t kp_f64bits(double d) { uint64_t x; memcpy(&x, &d, 8); return x; }
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "kproxy's codec is written for little-endian machines"
    #endif
    """
    uint16_t be16 "kp_be16"(const uint8_t *) noexcept nogil
    uint32_t be32 "kp_be32"(const uint8_t *) noexcept nogil
    uint64_t be64 "kp_be64"(const uint8_t *) noexcept nogil
    double bef64 "kp_bef64"(const uint8_t *) noexcept nogil
    uint64_t f64bits "kp_f64bits"(double) noexcept nogil


cdef enum Fault:
    FAULT_NONE = 0
    FAULT_SHORT = 1  # fewer bytes left than needed
    FAULT_COUNT = 2  # more elements than the bytes left could hold
    FAULT_NULL = 3  # null where the field is not nullable
    FAULT_VARINT = 4  # a varint of more than five bytes
    FAULT_LENGTH = 5  # a string longer than 32,767 bytes, or a negative tag size
    FAULT_TAG_SIZE = 6  # a known tag whose value does not fill its size


cdef struct Cursor:
    const uint8_t *base  # where the message starts
    const uint8_t *at
    const uint8_t *limit
    int fault
    int64_t needed  # after a fault: bytes or elements needed
    int64_t left  # after a fault: bytes that were left


cdef inline int fail(Cursor *c, int fault, int64_t needed) noexcept nogil:
    c.fault = fault
    c.needed = needed
    c.left = c.limit - c.at
    return -1


cdef inline int need(Cursor *c, int64_t size) noexcept nogil:
    """Return 0 if *size* more bytes are present, else -1; also -1 for a negative size."""
    if size < 0 or c.limit - c.at < size:
        return fail(c, FAULT_SHORT, size)
    return 0


cdef inline int read_uvarint(Cursor *c, uint32_t *out) noexcept nogil:
    """Read an UNSIGNED_VARINT of at most five bytes; bits beyond the 32nd are dropped, as in Kafka's ByteUtils."""
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    cdef const uint8_t *at = c.at
    while at < c.limit:
        byte = at[0]
        at += 1
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            c.at = at
            out[0] = value
            return 0
        shift += 7
        if shift > 28:
            return fail(c, FAULT_VARINT, 5)
    return fail(c, FAULT_SHORT, at - c.at + 1)


cdef inline int read_compact_size(Cursor *c, int32_t *out) noexcept nogil:
    """Read a compact length or count: N + 1 as unsigned varint; negative means null. It wraps like Java's int."""
    cdef uint32_t value
    if read_uvarint(c, &value) < 0:
        return -1
    out[0] = <int32_t>(value - 1)
    return 0


cdef inline int read_int16_size(Cursor *c, int32_t *out) noexcept nogil:
    if need(c, 2) < 0:
        return -1
    out[0] = <int16_t>be16(c.at)
    c.at += 2
    return 0


cdef inline int read_int32_size(Cursor *c, int32_t *out) noexcept nogil:
    if need(c, 4) < 0:
        return -1
    out[0] = <int32_t>be32(c.at)
    c.at += 4
    return 0


cdef struct Buffer:
    uint8_t *data
    size_t size
    size_t capacity


cdef enum:
    KEPT = 1 << 20  # bytes of a buffer that are kept for what is written into it next


cdef inline void empty(Buffer *b) noexcept nogil:
    """Forget what was written, and return the memory that an unusual message took."""
    b.size = 0
    if b.capacity > KEPT:
        free(b.data)
        b.data = NULL
        b.capacity = 0


cdef inline int reserve(Buffer *b, size_t more) except -1 nogil:
    """Make room for *more* bytes. Raises MemoryError."""
    cdef size_t capacity
    cdef uint8_t *data
    if b.size + more <= b.capacity:
        return 0
    capacity = b.capacity * 2 + more
    data = <uint8_t *>realloc(b.data, capacity)
    if data == NULL:
        with gil:
            raise MemoryError
    b.data = data
    b.capacity = capacity
    return 0


cdef inline int put(Buffer *b, const void *data, size_t size) except -1 nogil:
    reserve(b, size)
    if size:
        memcpy(b.data + b.size, data, size)
        b.size += size
    return 0


cdef inline int put8(Buffer *b, uint8_t value) except -1 nogil:
    reserve(b, 1)
    b.data[b.size] = value
    b.size += 1
    return 0


cdef inline int put16(Buffer *b, uint16_t value) except -1 nogil:
    value = be16(<const uint8_t *>&value)
    return put(b, &value, 2)


cdef inline int put32(Buffer *b, uint32_t value) except -1 nogil:
    value = be32(<const uint8_t *>&value)
    return put(b, &value, 4)


cdef inline int put64(Buffer *b, uint64_t value) except -1 nogil:
    value = be64(<const uint8_t *>&value)
    return put(b, &value, 8)


cdef inline int put_uvarint(Buffer *b, uint32_t value) except -1 nogil:
    reserve(b, 5)
    while value > 0x7F:
        b.data[b.size] = <uint8_t>(value | 0x80)
        b.size += 1
        value >>= 7
    b.data[b.size] = <uint8_t>value
    b.size += 1
    return 0
