# cython: language_level=3
"""What a lane looks up of an API at a version; made once for a configuration, shared by all links that began under it."""

from libc.stdint cimport uint8_t

from kproxy.protocol.program cimport Struct


cdef enum:
    PLAN_KEYS = 128
    PLAN_VERSIONS = 32


cdef enum Wanted:  # as kproxy.filters.contract.Want
    WANT_PASS = 0
    WANT_HOLD = 1
    WANT_TAIL = 2
    WANT_REFUSE = 3


cdef struct Row:  # an API at a version
    bint known
    uint8_t want_request
    uint8_t want_response
    bint header_tags  # of the response's header
    bint tapped
    Struct *tail  # of a response whose end is looked at
    int tail_stop


cdef class Plan:
    cdef Row rows[PLAN_KEYS][PLAN_VERSIONS]
    cdef bint keys[PLAN_KEYS]  # that the facts have
    cdef Row above[PLAN_KEYS]  # of versions above the facts
    cdef Row unknown  # of API keys the facts lack
    cdef Struct *produce[PLAN_VERSIONS]
    cdef int produce_stop[PLAN_VERSIONS]
    cdef bint produce_tags[PLAN_VERSIONS]
    cdef list programs  # keeps what the pointers point to
    cdef readonly object chain
    cdef readonly bint selective  # whether some APIs are not tapped, or frames not whole
    cdef readonly unsigned int snaplen

    cdef Row *row(self, int api_key, int api_version) noexcept nogil
    cdef int _fill(self, int key, object api, object chain, bint tapped) except -1
    cdef int _fill_tail(self, Row *row, str name, int version, object chain) except -1
    cdef int _fill_produce(self, int version) except -1
