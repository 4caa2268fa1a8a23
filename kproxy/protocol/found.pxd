# cython: language_level=3
"""What a walk finds in a body, for compiled code."""

from libc.stdint cimport int64_t

from kproxy.protocol.program cimport Program
from kproxy.protocol.wire cimport Buffer


cdef class Found:
    cdef readonly int64_t throttle_ms  # the first throttle time above 0; 0 without one
    cdef readonly bint is_complete  # whether the walk came to the end of the body
    cdef Buffer _errors  # int16 each
    cdef Buffer _topic_ids  # 16 bytes each
    cdef Buffer _groups  # offset and size of each: int64
    cdef bytes _data

    cdef bint search(self, Program program, bytes data, Py_ssize_t start, int roles) except -1
    cdef bint has_errors(self) noexcept
