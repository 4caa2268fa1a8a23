# cython: language_level=3
"""A client's connection and the broker's, joined."""

from libc.stdint cimport uint64_t

from kproxy.proxy.forwarding.lane cimport Joint, Lane


cdef class Link(Joint):
    cdef readonly uint64_t number
    cdef readonly Lane requests
    cdef readonly Lane responses
    cdef int client_fd  # of a link between plain sockets; else -1
    cdef int broker_fd
    cdef public bint connecting  # waiting for broker_fd to be connected
    cdef public object legs  # (client, broker) of a link between transports
    cdef public object facts  # ConnectionFacts, made when somebody needs them
    cdef public bytes local  # the address the client came to (sockaddr), once asked for
    cdef public bytes peer  # the client's address as the kernel gave it (sockaddr)
    cdef public object target  # (host, port) of the broker, or None
    cdef public object node_id
    cdef public object client_host_slot  # index of the client host in the per-address connection counters, or None
    cdef readonly uint64_t opened_at  # ns, monotonic
    cdef uint64_t tap_epoch
    cdef bint tap_missed  # something has passed that its reader was not told of
    cdef int reset_by  # the lane of which side lost its source: 1 requests, 2 responses; 0: neither
    cdef public bint broker_first  # the broker was done before the client

    cdef bint tap_open(self, uint64_t epoch, uint64_t at) noexcept
    cdef void tap_dropped(self, Lane lane, size_t size) noexcept
    cdef void tap_close(self, int cause) noexcept
    cdef bint tap_tell_lost(self, Lane lane, uint64_t at) noexcept
    cdef int on_eof(self, Lane lane) except -1
    cdef bint awaits_broker(self) noexcept
    cdef int cause_of_end(self) noexcept
