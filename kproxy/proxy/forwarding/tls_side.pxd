# cython: language_level=3
"""Declarations of tls_side.pyx."""

from libc.stdint cimport uint8_t


cdef enum:
    PIECE = 65_536  # bytes given to OpenSSL at a time: a BIO keeps the size it once had


cdef class TlsSide:
    cdef readonly object ssl_object  # type: SSLObject
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
