# cython: language_level=3
"""The lane from client to broker."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kproxy.proxy.forwarding.lane cimport Lane
from kproxy.proxy.forwarding.plan cimport Row


cdef class RequestLane(Lane):
    cdef int32_t walked_id  # correlation id of the Produce that passes

    cdef int route_request(self, Row *row, int api_key, int api_version, const uint8_t *at, uint64_t now) except -1
    cdef void count_request(self, Row *row, int api_key, int api_version, uint64_t size) noexcept
    cdef int note_request(self, Row *row, int api_key, int api_version, int32_t correlation_id, PyObject *held, uint64_t now) except -1
    cdef int drop_walked(self) noexcept
    cdef int send_token(self, bytes frame) except -1
    cdef int send_request(self, bytes frame, object held) except -1
