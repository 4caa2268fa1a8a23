# cython: language_level=3
"""What a walk finds in a body, for compiled code."""

from libc.stdint cimport int64_t

from kproxy.protocol.program cimport Program
from kproxy.protocol.wire cimport Buffer


cdef class Found:
    cdef int64_t throttle_ms  # the first throttle time above 0; 0 without one
    cdef Buffer _errors  # int16 each
    cdef Buffer _topic_ids  # 16 bytes each
    cdef Buffer _groups  # offset and size of each: int64
    cdef bytes _data

    cdef int clear(self) except -1
    cdef int search(self, Program program, bytes data, Py_ssize_t start, int roles) except -1
    cdef bint has_errors(self) noexcept
    cdef list error_codes(self)
    cdef list topic_ids(self)
    cdef list group_ids(self)
