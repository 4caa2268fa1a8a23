# cython: language_level=3
"""The lane from broker to client."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kproxy.proxy.forwarding.in_flight cimport Entry
from kproxy.proxy.forwarding.lane cimport Lane
from kproxy.proxy.forwarding.plan cimport Row


cdef class ResponseLane(Lane):
    cdef Entry current  # what the frame in hand answers

    cdef int route_response(self, Row *row, const uint8_t *at, uint64_t now) except -1
    cdef void count_response(self, uint64_t now) noexcept
    cdef bint skips_tokens(self, int32_t correlation_id) noexcept
    cdef int begin_token(self, int32_t size) except -1
    cdef object take_held(self)
