# cython: language_level=3
"""Rows of exchanges and record batches, for kproxy.output.tables.tables; the meaning is in rows.pyx."""

from libc.stdint cimport int64_t

from kproxy.output.tables.body cimport Body
from kproxy.output.tables.columns cimport Rows
from kproxy.session.exchanges cimport Exchange


cdef class Head:
    """The first columns of nearly all tables."""

    cdef str connection_id
    cdef str broker
    cdef int64_t exchange

    cdef int put(self, Rows rows) except -1


cdef class RecordsField:
    cdef readonly str direction  # produce or fetch
    cdef readonly object topic  # type: str | None
    cdef readonly object topic_id  # type: str | None
    cdef readonly int partition
    cdef readonly object error_code  # type: int | None
    cdef readonly object appended_offset  # type: int | None  # Produce: of the first record, if the broker answered with one
    cdef readonly object data  # type: bytes | LoggedRecords  # bytes; LoggedRecords of a decoded log
    cdef readonly bint unaligned  # whether it may start inside a batch


cpdef object instant(int64_t at)
cdef int put_instant(Rows rows, Py_ssize_t at, int64_t time) except -1
cdef int put_exchange(Rows rows, Exchange exchange, Body request, Body response, object undecoded) except -1
cdef int put_counts(Rows rows, int64_t batches, int64_t records, int64_t size) except -1
cpdef list records_fields(Body request, Body response, object names)
cdef int64_t write_batches(Rows rows, Head head, at, RecordsField field, batches, problems) except -1
