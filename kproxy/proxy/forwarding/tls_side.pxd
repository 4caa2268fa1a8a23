# cython: language_level=3
"""Declarations of tls_side.pyx."""

from libc.stdint cimport uint8_t


cdef enum:
    LONGEST_RECORD = 18_432  # bytes: 16 KiB and what may be around them (RFC 8446, 5.2)


cdef class TlsSide:
    cdef readonly object ssl_object
    cdef readonly bint ended  # the peer has sent close_notify
    cdef object incoming
    cdef object outgoing
    cdef object feed
    cdef object read
    cdef object pending
    cdef object write
    cdef object take

    cdef Py_ssize_t decrypt(self, const uint8_t *data, size_t size, uint8_t *plain, size_t room) except -1
    cdef bytes encrypt(self, const uint8_t *data, size_t size)
    cdef bytes due(self)
    cdef bytes goodbye(self)
