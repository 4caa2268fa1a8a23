# cython: language_level=3
"""Stream, for compiled code; its meaning is in stream.pyi."""

from libc.stdint cimport int64_t

from kproxy.session.framing cimport FrameBuffer


cdef class Stream:
    cdef readonly object direction
    cdef readonly FrameBuffer frames
    cdef readonly object handle
    cdef readonly bint plain  # frames follow each other: no hunt, nothing to pass over, not opaque
    cdef readonly bint opaque
    cdef readonly list refound  # bytes to be looked at again, by their times
    cdef object _owner
    cdef object _new_hunt
    cdef object _hunt
    cdef int64_t _skip

    cpdef int receive(self, bytes data, int64_t at, list events) except -1
