# cython: language_level=3
"""Records fields and their rows, for compiled code; meanings are in record_batches.pyi."""

from kproxy.output.tables.bodies cimport Body


cdef class RecordsField:
    cdef readonly str direction
    cdef readonly object topic
    cdef readonly object topic_id
    cdef readonly int partition
    cdef readonly object error_code
    cdef readonly object appended_offset
    cdef readonly bytes data
    cdef readonly bint unaligned


cpdef list records_fields(Body request, Body response, object names)
cpdef list batch_rows(RecordsField field, object batches, object problems)
