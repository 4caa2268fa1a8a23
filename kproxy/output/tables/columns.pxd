# cython: language_level=3
"""Rows, for compiled code that appends them in parts; the meaning is in columns.pyx."""

from libc.stdint cimport int64_t

from kproxy.protocol.wire cimport Buffer


cdef class Column:
    cdef int kind
    cdef int width  # bytes of a value, or of an offset for text and lists
    cdef bint nullable
    cdef Buffer values
    cdef Buffer validity
    cdef Py_ssize_t count
    cdef Py_ssize_t nulls
    cdef Py_ssize_t pending  # nulls counted but not yet written
    cdef Column elements

    cdef Py_ssize_t append(self, object value) except -1
    cdef Py_ssize_t put_value(self, object value) except -1
    cdef int put_nulls(self) except -1
    cdef int put_bits(self, Buffer *bits, Py_ssize_t count, bint bit) except -1
    cdef int put_integer(self, int64_t value) except -1
    cdef int put_float(self, double value) except -1
    cdef int put_text(self, object text) except -1
    cdef int put_offset(self) except -1


cdef class Rows:
    cdef readonly object table  # type: Table
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef object schema
    cdef object write
    cdef list columns
    cdef Py_ssize_t at  # the column of the next value
    cdef dict places  # number of each column, by its name

    cdef int begin(self) except -1
    cdef int put(self, tuple part) except -1
    cdef int put_named(self, dict values) except -1
    cdef int end(self) except -1
    cpdef int flush(self) except -1
