# cython: language_level=3
"""Frames, exchanges and routes for compiled code that makes or reads many of them; the fields' meanings are in exchanges.pyi."""

from libc.stdint cimport int64_t

from kproxy.protocol.program cimport Program


cdef class Frame:
    cdef public bytes data
    cdef public int64_t started_at
    cdef public int64_t ended_at
    cdef public object header
    cdef public Py_ssize_t body_start
    cdef public object message
    cdef public int body_version
    cdef public object layout
    cdef public object assumed_version
    cdef public object error
    cdef public bint unread
    cdef int64_t absent  # bytes at its end that are not in data
    cdef public int64_t trailing
    cdef public int64_t sent_at
    cdef int cut_code  # of ``cut``

    cpdef bint has_end(self) noexcept


cdef class Event:
    cdef public object connection
    cdef public int64_t at


cdef class Exchange(Event):
    cdef public object api_key
    cdef public object api_version
    cdef public object correlation_id
    cdef public object client_id
    cdef public Frame request
    cdef public Frame response
    cdef public bint expects_response
    cdef public object unanswered
    cdef public object undecoded
    cdef public object topic_names
    cdef public object fetch_sessions
    cdef public int64_t fetch_number


cdef class Route:
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly str name
    cdef readonly object request
    cdef readonly object response
    cdef readonly int response_header_version
    cdef readonly object request_step
    cdef readonly object response_step
    cdef readonly bint has_topic_ids
    cdef readonly bint request_has_names
    cdef readonly bint response_has_names
    cdef readonly bint learns
    cdef Program newest_request
    cdef Program newest_response

    cpdef int read_request(self, Frame frame) except -1
    cpdef int read_response(self, Frame frame) except -1
    cpdef bint expects_response(self, Frame produce) except -1


cdef class InFlight:
    cdef readonly object queue
    cdef int64_t most
    cdef int64_t most_size
    cdef int64_t size

    cpdef bint add(self, Exchange exchange, Route route, int64_t size) except -1
    cpdef tuple take(self)


cpdef int read_body(Frame frame, message, int api_version) except -1
cpdef Route route_of(int api_key, int api_version)
