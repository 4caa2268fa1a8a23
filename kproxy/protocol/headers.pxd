# cython: language_level=3
"""Headers, for compiled code that reads many of them; what they do is in headers.pyx."""

from kproxy.protocol.wire cimport Buffer


cdef class RequestHeader:
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly object client_id  # type: str | None  # bytes that are not UTF-8 are lone surrogates
    cdef readonly tuple unknown_tags  # type: tuple[tuple[int, bytes], ...]  # (tag, data) in wire order
    cdef readonly int header_version  # 0, 1 or 2
    cdef readonly Py_ssize_t size  # bytes of the header
    cdef bytes client_id_bytes


cdef class ResponseHeader:
    cdef readonly int correlation_id
    cdef readonly tuple unknown_tags  # type: tuple[tuple[int, bytes], ...]  # (tag, data) in wire order
    cdef readonly int header_version  # 0 or 1
    cdef readonly Py_ssize_t size  # bytes of the header


cpdef RequestHeader read_request_header(bytes data, Py_ssize_t start=*)
cpdef ResponseHeader read_response_header(bytes data, int header_version, Py_ssize_t start=*)
cpdef int request_header_version(int api_key, int api_version) except -1
cdef int put_request_header(Buffer *out, RequestHeader header) except -1
cdef int put_response_header(Buffer *out, ResponseHeader header) except -1
