# Bounds-checked readers: the only way kproxy.capture looks at bytes of a file through a pointer.
#
# A read beyond the end gives 0 and sets `overrun`, which stays set: a parser reads all it wants and asks once.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef struct Span:
    const uint8_t* data
    Py_ssize_t size
    bint overrun


cdef inline bint _holds(Span* span, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    if at >= 0 and at <= span.size - size:
        return True
    span.overrun = True
    return False


cdef inline uint8_t u8(Span* span, Py_ssize_t at) noexcept nogil:
    return span.data[at] if _holds(span, at, 1) else 0


cdef inline uint16_t be16(Span* span, Py_ssize_t at) noexcept nogil:
    if not _holds(span, at, 2):
        return 0
    return <uint16_t>((span.data[at] << 8) | span.data[at + 1])


cdef inline uint32_t be32(Span* span, Py_ssize_t at) noexcept nogil:
    if not _holds(span, at, 4):
        return 0
    return (
        (<uint32_t>span.data[at] << 24)
        | (<uint32_t>span.data[at + 1] << 16)
        | (<uint32_t>span.data[at + 2] << 8)
        | <uint32_t>span.data[at + 3]
    )


cdef inline uint16_t swap16(uint16_t value) noexcept nogil:
    return <uint16_t>((value >> 8) | (value << 8))


cdef inline uint32_t swap32(uint32_t value) noexcept nogil:
    return (value >> 24) | ((value >> 8) & 0xFF00) | ((value << 8) & 0xFF0000) | (value << 24)


cdef inline uint16_t file16(Span* span, Py_ssize_t at, bint big_endian) noexcept nogil:
    cdef uint16_t value = be16(span, at)
    return value if big_endian else swap16(value)


cdef inline uint32_t file32(Span* span, Py_ssize_t at, bint big_endian) noexcept nogil:
    cdef uint32_t value = be32(span, at)
    return value if big_endian else swap32(value)


cdef inline const uint8_t* at_most(Span* span, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    # A pointer to `size` bytes that are all inside, or NULL.
    return span.data + at if size >= 0 and _holds(span, at, size) else NULL
