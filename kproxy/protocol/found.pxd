# cython: language_level=3
"""What a walk finds in a body, for compiled code."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memcpy

from kproxy.protocol.program cimport Op, Program, Struct
from kproxy.protocol.wire cimport Buffer, Cursor


cdef class NamedPartition:
    cdef readonly str group_id  # "" where the message names none before it
    cdef readonly str topic  # "" where the message has an id in place of the name
    cdef readonly str topic_id  # as Kafka writes it; "" for none or zero
    cdef readonly int32_t index
    cdef readonly int16_t error_code
    cdef readonly int64_t offset  # base, committed or requested offset, or high watermark; -1 for none
    cdef readonly int64_t timestamp  # 0 for none
    cdef readonly int64_t records_size  # bytes


cdef class Found:
    cdef int64_t throttle_ms  # the first throttle time above 0; 0 without one
    cdef Buffer _errors  # int16 each, no code twice
    cdef Buffer _topic_ids  # 16 bytes each
    cdef list _groups
    cdef list _partitions
    cdef NamedPartition _partition  # the one that is being read
    cdef str _group_id
    cdef str _topic
    cdef str _topic_id

    cdef int clear(self) except -1
    cdef int search(self, Program program, bytes data, Py_ssize_t start, int roles) except -1
    cdef bint has_errors(self) noexcept
    cdef list error_codes(self)
    cdef list topic_ids(self)
    cdef list group_ids(self)
    cdef list partitions(self)


cdef class RecordsField:
    cdef readonly str path  # "responses[0].partitions[1].records"
    cdef readonly object topic  # type: str | None  # None: the message names none before it
    cdef readonly object topic_id  # type: str | None  # as Kafka writes it; None for none or zero
    cdef readonly int32_t partition
    cdef readonly bytes message  # that it is in
    cdef readonly Py_ssize_t start  # of its data in *message*
    cdef readonly Py_ssize_t size  # bytes of its data
    cdef Py_ssize_t size_at  # where *message* has its size
    cdef bint is_compact  # its size is a varint, one too large


cdef int read_tag(Struct *s, Cursor *c, Op **op, Cursor *value) noexcept nogil
cdef int add_error_code(Buffer *codes, int16_t code) except -1
cdef list error_codes_in(const Buffer *codes)


cdef inline bint is_zero(const unsigned char *uuid) noexcept:
    cdef int64_t[2] halves
    memcpy(halves, uuid, 16)
    return halves[0] == 0 and halves[1] == 0
