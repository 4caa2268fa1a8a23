# cython: language_level=3
"""Body, for compiled code; its meaning is in bodies.pyi."""

from kproxy.output.tables.gather cimport Plan
from kproxy.session.events cimport Frame


cdef class Body:
    cdef readonly object message
    cdef readonly int version
    cdef readonly object struct

    cdef Plan plan(self)


cpdef tuple read_body(Frame frame)
