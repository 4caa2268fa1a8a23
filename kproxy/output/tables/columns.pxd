# cython: language_level=3
"""Rows, for compiled code that sets their values one by one; the meaning is in columns.pyx."""

cimport cython
from libc.stdint cimport int64_t, uint8_t

from kproxy.protocol.wire cimport Buffer


@cython.final
cdef class Column:
    cdef int kind
    cdef int width  # bytes of a value, or of an offset for text and lists
    cdef bint nullable
    cdef Buffer values
    cdef Buffer validity
    cdef Py_ssize_t count
    cdef Py_ssize_t nulls
    cdef Column elements

    cdef int begin(self, Py_ssize_t row) except -1
    cdef Py_ssize_t put(self, object value) except -1
    cdef int put_nulls(self, Py_ssize_t count) except -1
    cdef int put_bits(self, Buffer *bits, Py_ssize_t count, bint bit) except -1
    cdef int put_integer(self, int64_t value) except -1
    cdef int put_float(self, double value) except -1
    cdef Py_ssize_t put_text(self, object text) except -1
    cdef Py_ssize_t put_wire_text(self, const uint8_t *text, Py_ssize_t size) except -1
    cdef Py_ssize_t end_text(self, Py_ssize_t size) except -1
    cdef int end_list(self) except -1
    cdef int put_offset(self) except -1


@cython.final
cdef class Rows:
    cdef readonly object table  # type: Table
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef object schema
    cdef object write
    cdef list columns

    cdef int begin(self) except -1
    cdef Column column(self, Py_ssize_t at)
    cdef int put(self, Py_ssize_t at, object value) except -1
    cdef int put_part(self, Py_ssize_t at, tuple part) except -1
    cdef int end(self) except -1
    cpdef int flush(self) except -1
