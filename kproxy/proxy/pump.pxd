# cython: language_level=3
"""A lane between two plain sockets."""

from libc.stdint cimport uint8_t

from kproxy.proxy.lane cimport Pipe


cdef class SocketPipe(Pipe):
    cdef readonly int source
    cdef readonly int sink
    cdef object loop
    cdef object on_readable
    cdef uint8_t *output  # what the sink has not taken
    cdef size_t output_at
    cdef size_t output_size
    cdef size_t output_capacity
    cdef bint reading
    cdef bint writing

    cdef int receive(self) except -1
    cdef int keep_output(self, const uint8_t *data, size_t size) except -1
    cdef int drop_output(self) except -1
