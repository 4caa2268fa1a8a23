# cython: language_level=3
"""Seen, for compiled code; its meaning is in connections.pyi."""

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange


cdef class Seen:
    cdef public object connection
    cdef public object tls
    cdef public object user_name
    cdef public object closed_by
    cdef public int64_t undecoded
    cdef public int64_t errors
    cdef readonly str connection_id
    cdef object capture
    cdef bint seen  # whether the two times are known
    cdef readonly int64_t first_seen_at
    cdef readonly int64_t last_seen_at
    cdef readonly dict client_ids
    cdef int64_t exchanges
    cdef int64_t requests
    cdef int64_t responses
    cdef int64_t request_bytes
    cdef int64_t response_bytes
    cdef int64_t unanswered
    cdef readonly int64_t gaps
    cdef readonly object missing_bytes
    cdef readonly object skipped_bytes
    cdef readonly int64_t bad_frames
    cdef readonly object not_kafka

    cpdef int64_t count_exchange(self, Exchange exchange) except -1
    cdef int see(self, int64_t first, int64_t last) except -1
