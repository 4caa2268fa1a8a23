# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""JSON values as text: numbers, strings with their escapes, base64."""

from cpython.mem cimport PyMem_Free
from libc.math cimport isfinite, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from kproxy.protocol.wire cimport Buffer, put, put8, reserve

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *kind) except NULL
    int Py_DTSF_ADD_DOT_0

cdef const char *HEX = "0123456789abcdef"
cdef const char *DIGITS = (
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
    "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
    "9899"
)
cdef const char *ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char *URL_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

cdef uint8_t[256] PLAIN  # 1: an ASCII byte that stands for itself inside a JSON string
for _byte in range(256):
    PLAIN[_byte] = 0x20 <= _byte < 0x7F and _byte not in b'"\\'


cdef int put_word(Buffer *b, const char *word) except -1:
    return put(b, word, strlen(word))


cdef int put_int(Buffer *b, int64_t value) except -1:
    cdef char[24] text
    cdef int at = 24
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        rest = 0 - rest
    while rest >= 100:
        at -= 2
        memcpy(&text[at], DIGITS + 2 * (rest % 100), 2)
        rest //= 100
    if rest >= 10:
        at -= 2
        memcpy(&text[at], DIGITS + 2 * rest, 2)
    else:
        at -= 1
        text[at] = <char>(48 + rest)
    if value < 0:
        at -= 1
        text[at] = b"-"
    return put(b, &text[at], 24 - at)


cdef int put_float(Buffer *b, double value) except -1:
    """The shortest text that reads back as the same number. NaN and the infinities are strings, as Jackson writes them."""
    cdef char *text
    if isnan(value):
        return put_word(b, b'"NaN"')
    if not isfinite(value):
        return put_word(b, b'"Infinity"' if value > 0 else b'"-Infinity"')
    text = PyOS_double_to_string(value, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    try:
        return put(b, text, strlen(text))
    finally:
        PyMem_Free(text)


cdef int put_string(Buffer *b, const uint8_t *text, int32_t size) except -1:
    """A JSON string of UTF-8 bytes; each ill-formed sequence becomes U+FFFD, as in Java and Python."""
    cdef const uint8_t *at = text
    cdef const uint8_t *limit = text + size
    cdef const uint8_t *run
    reserve(b, size + 2)
    put8(b, b'"')
    while at < limit:
        run = at
        while at < limit and PLAIN[at[0]]:
            at += 1
        put(b, run, at - run)
        if at < limit:
            at = put_character(b, at, limit)
    return put8(b, b'"')


cdef const uint8_t *put_character(Buffer *b, const uint8_t *at, const uint8_t *limit) except NULL:
    """One character that is not plain; returns where the next one starts."""
    cdef uint32_t point
    cdef int size
    if at[0] < 0x80:
        put_escape(b, at[0])
        return at + 1
    size = sequence(at, limit, &point)
    if size < 0:
        put(b, b"\xef\xbf\xbd", 3)
        return at - size
    if is_unseen(point):
        put_escape(b, point)
    else:
        put(b, at, size)
    return at + size


cdef int put_escape(Buffer *b, uint32_t point) except -1:
    cdef int i
    cdef char[6] text
    if point == b'"' or point == b"\\":
        put8(b, b"\\")
        return put8(b, point)
    if point == b"\n" or point == b"\r" or point == b"\t":
        return put_word(b, b"\\n" if point == b"\n" else b"\\r" if point == b"\r" else b"\\t")
    text[0] = b"\\"
    text[1] = b"u"
    for i in range(4):
        text[2 + i] = HEX[(point >> (12 - 4 * i)) & 15]
    return put(b, text, 6)


cdef bint is_unseen(uint32_t point) noexcept:
    """C1 controls, line separators and bidirectional formatting: legal in JSON, but they would fool who reads it."""
    return (
        point < 0xA0
        or point == 0x061C
        or 0x200E <= point <= 0x200F
        or 0x2028 <= point <= 0x202E
        or 0x2066 <= point <= 0x2069
        or point == 0xFEFF
    )


cdef int sequence(const uint8_t *at, const uint8_t *limit, uint32_t *point) noexcept:
    """Size of the well-formed UTF-8 sequence at *at*; else minus the size of its maximal ill-formed part (Unicode 3.9)."""
    cdef int i
    cdef uint8_t lead = at[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int more
    if 0xC2 <= lead <= 0xDF:
        more, point[0] = 1, lead & 0x1F
    elif 0xE0 <= lead <= 0xEF:
        more, point[0] = 2, lead & 0x0F
        low = 0xA0 if lead == 0xE0 else 0x80
        high = 0x9F if lead == 0xED else 0xBF
    elif 0xF0 <= lead <= 0xF4:
        more, point[0] = 3, lead & 0x07
        low = 0x90 if lead == 0xF0 else 0x80
        high = 0x8F if lead == 0xF4 else 0xBF
    else:
        return -1
    for i in range(1, more + 1):
        if at + i >= limit or not low <= at[i] <= high:
            return -i
        point[0] = (point[0] << 6) | (at[i] & 0x3F)
        low, high = 0x80, 0xBF
    return more + 1


cdef int put_base64(Buffer *b, const uint8_t *data, int64_t size) except -1:
    """A JSON string of padded base64 (RFC 4648 section 4)."""
    reserve(b, size // 3 * 4 + 6)
    put8(b, b'"')
    encode64(b, data, size, ALPHABET)
    while (b.size and size % 3):
        put8(b, b"=")
        size += 1
    return put8(b, b'"')


cdef int put_uuid(Buffer *b, const uint8_t *data) except -1:
    """A JSON string of Kafka's Uuid.toString: 16 bytes as 22 characters of URL-safe base64 without padding."""
    reserve(b, 24)
    put8(b, b'"')
    encode64(b, data, 16, URL_ALPHABET)
    return put8(b, b'"')


cdef int encode64(Buffer *b, const uint8_t *data, int64_t size, const char *alphabet) except -1:
    cdef uint32_t bits
    cdef char[4] quad
    while size >= 3:
        bits = (<uint32_t>data[0] << 16) | (<uint32_t>data[1] << 8) | data[2]
        quad[0] = alphabet[bits >> 18]
        quad[1] = alphabet[(bits >> 12) & 63]
        quad[2] = alphabet[(bits >> 6) & 63]
        quad[3] = alphabet[bits & 63]
        put(b, quad, 4)
        data += 3
        size -= 3
    if size:
        bits = (<uint32_t>data[0] << 16) | (<uint32_t>data[1] << 8 if size == 2 else 0)
        quad[0] = alphabet[bits >> 18]
        quad[1] = alphabet[(bits >> 12) & 63]
        quad[2] = alphabet[(bits >> 6) & 63]
        put(b, quad, size + 1)
    return 0
