# cython: language_level=3
"""Body, for compiled code; its meaning is in bodies.pyi."""

from kproxy.output.tables.gather cimport Plan
from kproxy.protocol.program cimport Program
from kproxy.session.exchanges cimport Frame


cdef class Form:
    cdef str name  # of the message
    cdef Plan plan
    cdef Program program  # None where there are several layouts
    cdef tuple getters  # of the top fields; None until they are asked for


cdef class Body:
    cdef readonly object message
    cdef readonly int version
    cdef readonly object struct
    cdef Form form


cdef Form form_of(object message, int version)
cpdef tuple read_body(Frame frame)
