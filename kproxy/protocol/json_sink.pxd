# cython: language_level=3
"""JSON values as text, for the other extensions that write JSON."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kproxy.protocol.wire cimport Buffer


cdef int put_word(Buffer *b, const char *word) except -1
cdef int put_int(Buffer *b, int64_t value) except -1
cdef int put_float(Buffer *b, double value) except -1
cdef int put_string(Buffer *b, const uint8_t *text, int32_t size) except -1
cdef int put_base64(Buffer *b, const uint8_t *data, int64_t size) except -1
cdef int put_uuid(Buffer *b, const uint8_t *data) except -1
cdef str uuid_text(const uint8_t *data)
