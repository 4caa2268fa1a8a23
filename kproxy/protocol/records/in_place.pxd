# cython: language_level=3
"""Editor: changes the bytes of keys and values of records, without objects for the records."""

from libc.stdint cimport int64_t, uint8_t

from kproxy.protocol.records.shape cimport RecordShape
from kproxy.protocol.wire cimport Buffer


cdef class Editor:
    cdef bint calls_python  # for most records: it keeps the lock of the interpreter from one to the next

    cdef int edit(self, const uint8_t *data, size_t size, Buffer *out) except -1 nogil
    cdef int edit_value(self, const RecordShape *record, Buffer *out) except -1 nogil
    cdef int64_t size_of(self, const RecordShape *record) noexcept nogil
    cdef bint write_value(self, const RecordShape *record, uint8_t *at) except -1 nogil
    cdef bint accepts(self, const uint8_t *data, size_t size) except -1 nogil
