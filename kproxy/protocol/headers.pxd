# cython: language_level=3
"""Headers, for compiled code that reads many of them; meanings are in headers.pyi."""

from kproxy.protocol.wire cimport Buffer


cdef class RequestHeader:
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly object client_id  # str or None; bytes that are not UTF-8 are lone surrogates
    cdef readonly tuple unknown_tags  # of (tag, data)
    cdef readonly int header_version
    cdef readonly Py_ssize_t size  # bytes it took
    cdef bytes client_id_bytes


cdef class ResponseHeader:
    cdef readonly int correlation_id
    cdef readonly tuple unknown_tags  # of (tag, data)
    cdef readonly int header_version
    cdef readonly Py_ssize_t size  # bytes it took


cpdef RequestHeader read_request_header(bytes data, Py_ssize_t start=*)
cpdef ResponseHeader read_response_header(bytes data, int header_version, Py_ssize_t start=*)
cpdef int request_header_version(int api_key, int api_version) except -1
cdef int put_request_header(Buffer *out, RequestHeader header) except -1
cdef int put_response_header(Buffer *out, ResponseHeader header) except -1
