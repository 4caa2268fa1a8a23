# cython: language_level=3
"""Series for compiled code that counts each exchange."""

from libc.stdint cimport int64_t


cdef enum:
    MOST_NUMBERS = 5


cdef class Kept:
    cdef int64_t[MOST_NUMBERS] numbers
    cdef int64_t began  # its requests at the beginning of the period
    cdef int64_t seen  # its requests when it was last seen used
    cdef double used

    cdef bint is_idle(self, double now, double longest) noexcept
    cdef list row(self, int width)


cdef class Series:
    cdef int _width
    cdef tuple _other_labels
    cdef Kept _other
    cdef dict _kept  # type: dict[Labels, Kept]
    cdef dict _known  # type: dict[Key, Kept]  # those in _kept by names as they come; may be emptied at any time
    cdef dict _shared  # type: dict[Labels, int]  # requests of names without a place, in this period
    cdef int64_t _most
    cdef double _idle
    cdef double _now
    cdef double _period_began

    cdef Kept of(self, tuple key, int64_t requests)
    cdef Kept _find(self, tuple key, int64_t requests)
    cdef int _share(self, tuple labels, int64_t requests) except -1
