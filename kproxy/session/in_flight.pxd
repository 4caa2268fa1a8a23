# cython: language_level=3
"""InFlight, for compiled code; its meaning is in in_flight.pyi."""

from libc.stdint cimport int64_t

from kproxy.session.events cimport Exchange
from kproxy.session.routes cimport Route


cdef class InFlight:
    cdef readonly object queue
    cdef int64_t most
    cdef int64_t most_size
    cdef int64_t size

    cpdef bint add(self, Exchange exchange, Route route, int64_t size) except -1
    cpdef tuple take(self)
