# cython: language_level=3
"""Routes, for compiled code; meanings are in routes.pyi."""

from kproxy.protocol.program cimport Program
from kproxy.session.events cimport Frame


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
    cdef readonly bint tells_in_request
    cdef readonly bint tells_in_response
    cdef readonly bint learns
    cdef Program newest_request
    cdef Program newest_response

    cpdef int read_request(self, Frame frame) except -1
    cpdef int read_response(self, Frame frame) except -1
    cpdef bint expects_response(self, Frame produce) except -1


cpdef int read_body(Frame frame, message, int api_version) except -1
cpdef Route route_of(int api_key, int api_version)
