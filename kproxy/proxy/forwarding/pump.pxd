# cython: language_level=3
"""A lane between two plain sockets."""

from libc.stdint cimport uint32_t, uint8_t

from kproxy.proxy.forwarding.lane cimport Pipe


cdef class Poller:
    cdef int fd  # of the epoll
    cdef object loop
    cdef list gone  # what was let go of while events that name it may still be in hand

    cdef int handle(self, Watched watched, uint32_t events) except -1


cdef class Watched:
    cdef int fd
    cdef uint32_t mask  # what epoll tells of it; 0: it is not there
    cdef Poller poller
    cdef SocketPipe reads  # the pipe whose source it is
    cdef SocketPipe writes  # the pipe whose sink it is

    cdef int update(self) except -1


cdef class SocketPipe(Pipe):
    cdef Watched source
    cdef Watched sink
    cdef uint8_t *output  # what the sink has not taken
    cdef size_t output_at
    cdef size_t output_size
    cdef size_t output_capacity
    cdef bint reading
    cdef bint writing

    cdef int receive(self, bint to_the_end) except -1
    cdef int send_on(self) except -1
    cdef int keep_output(self, const uint8_t *data, size_t size) except -1
    cdef int drop_output(self) except -1
