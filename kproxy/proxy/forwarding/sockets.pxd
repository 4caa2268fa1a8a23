# cython: language_level=3
"""Declarations of sockets.pyx."""

from libc.stdint cimport uint32_t, uint64_t, uint8_t

from kproxy.proxy.forwarding.lane cimport Pipe
from kproxy.proxy.forwarding.tls_side cimport TlsSide


cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data


cdef enum:
    EVENTS_IN_A_TURN = 128  # before the loop's other work gets its turn


cdef class Poller:
    cdef int fd  # of the epoll
    cdef object loop
    cdef list detached  # sockets that events still to be handled may name: kept until those are handled
    cdef epoll_event events[EVENTS_IN_A_TURN]
    cdef int event_count
    cdef int next_event  # the first that is not handled yet
    cdef bint run_is_due  # the loop will call run_rest
    cdef uint64_t now  # ns, monotonic: when the last chunk was received; reading the clock once more would cost as much as a frame

    cdef int handle(self, PolledSocket polled, uint32_t events) except -1


cdef class PolledSocket:
    cdef int fd
    cdef uint32_t mask  # the events epoll reports; 0: the socket is not in the epoll
    cdef Poller poller
    cdef SocketPipe reads  # the pipe whose source it is
    cdef SocketPipe writes  # the pipe whose sink it is

    cdef int update(self) except -1


cdef class SocketPipe(Pipe):
    cdef PolledSocket source
    cdef PolledSocket sink
    cdef TlsSide source_tls  # None: the source is plain
    cdef TlsSide sink_tls
    cdef uint8_t *unsent  # bytes the sink has not taken
    cdef size_t unsent_at
    cdef size_t unsent_size
    cdef size_t unsent_capacity
    cdef bint reading
    cdef bint writing

    cdef int receive(self, bint to_the_end) except -1
    cdef int receive_encrypted(self, const uint8_t *data, size_t size) except -1
    cdef int emit_encrypted(self, const uint8_t *data, size_t size) except -1
    cdef int send_or_keep(self, const uint8_t *data, size_t size) except -1
    cdef int say_goodbye(self) except -1
    cdef int send_unsent(self) except -1
    cdef int keep_unsent(self, const uint8_t *data, size_t size) except -1
    cdef int free_unsent(self) except -1
