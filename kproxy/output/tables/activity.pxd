# cython: language_level=3
# What kproxy.output.tables.tables uses of activity.pyx.

from libc.stdint cimport int64_t

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport RecordsField


cdef class Activity:
    cdef readonly str connection_id
    cdef dict _counts
    cdef bint _has_newest
    cdef int64_t _newest

    cdef Py_ssize_t add(
        self, Rows rows, int64_t number, client_id, at, RecordsField field, int64_t batches, int64_t records
    ) except -1
    cdef Py_ssize_t held(self) noexcept
    cdef Py_ssize_t write(self, Rows rows) except -1
