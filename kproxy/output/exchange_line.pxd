# cython: language_level=3
"""For other lines about exchanges: their bodies, and parts of lines."""

from libc.stdint cimport int64_t

from kproxy.protocol.wire cimport Buffer
from kproxy.session.exchanges cimport Exchange


cpdef object read_bodies(Exchange exchange, opener=*)
cpdef bint has_errors(bytes response) except -1
cdef int put_bytes(Buffer *line, bytes value) except -1
cdef int put_digits(Buffer *line, int64_t value, int count) except -1
