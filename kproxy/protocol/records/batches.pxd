# cython: language_level=3
"""The header of a batch, and the opened batch that records are read from."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint8_t

from kproxy.protocol.records.shape cimport Walker


cdef class Batch:
    cdef readonly bytes data  # the field it is in
    cdef readonly Py_ssize_t position  # in data
    cdef readonly Py_ssize_t size  # with offset and size fields
    cdef readonly int magic
    cdef const uint8_t *at
    cdef int crc_state

    cdef bint has_valid_crc(self) except -1


cdef class OpenBatch:
    """A batch whose records can be walked. ``content`` is what the walker points into."""

    cdef readonly Batch batch
    cdef readonly object content  # type: bytes | bytearray  # bytes or bytearray
    cdef readonly str error  # type: str | None
    cdef readonly str skipped  # type: str | None
    cdef Py_buffer view  # of content, held so that it cannot be resized
    cdef const uint8_t *base
    cdef Walker walker
    cdef int64_t most  # records that are read at most

    cdef str fault(self, const Walker *w, int64_t index)
