# cython: language_level=3
"""FrameBuffer, for compiled code that cuts frames; what it does is in framing.pyi."""

from libc.stdint cimport int64_t

from kproxy.session.events cimport Frame


cdef class FrameBuffer:
    cdef public int64_t limit
    cdef readonly int64_t count
    cdef readonly object refused
    cdef bytes chunk
    cdef Py_ssize_t position  # in chunk
    cdef int64_t at  # ns: when chunk came
    cdef bytearray partial  # size field and what followed it so far
    cdef int64_t needed  # bytes of partial that make it whole
    cdef int64_t started_at  # ns: of partial

    cpdef int push(self, bytes chunk, int64_t at) except -1
    cpdef Frame next(self)
    cdef Frame next_from_pieces(self)
    cdef int take(self, bytearray partial, int64_t until) except -1
