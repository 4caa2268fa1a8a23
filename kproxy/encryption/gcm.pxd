# cython: language_level=3
"""AES-256-GCM with a data key, for compiled code."""

from libc.stdint cimport uint8_t

from kproxy.protocol.records.shape cimport RecordShape


cdef class Gcm:
    cdef readonly object encrypt  # type: Callable[[bytes, bytes, bytes], bytes]
    cdef readonly object decrypt  # type: Callable[[bytes, bytes, bytes], bytes]
    cdef object encrypt_into
    cdef object decrypt_into
    cdef public bint is_small_by_libcrypto
    cdef void *sealing  # contexts of libcrypto; NULL without it
    cdef void *opening

    cdef int seal(self, const uint8_t *nonce, bytes envelope, const RecordShape *record, uint8_t *out) except -1
    cdef bint open(self, bytes envelope, const RecordShape *record, uint8_t *out) except -1
