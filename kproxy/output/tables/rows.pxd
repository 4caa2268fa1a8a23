# cython: language_level=3
# What kproxy.output.tables.tables uses of rows.pyx.

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange, Frame


cdef class Body:
    cdef readonly object message
    cdef readonly int version
    cdef readonly object struct
    cdef readonly str name  # of the message
    cdef object form  # Form, in rows.pyx


cdef class Found:
    cdef readonly dict error_codes
    cdef readonly dict topics
    cdef readonly dict topic_ids
    cdef readonly dict groups
    cdef readonly dict transactional_ids
    cdef public Py_ssize_t partitions

    cdef dict into(self, int kind)


cdef class RecordsField:
    cdef readonly str direction  # produce or fetch
    cdef readonly object topic
    cdef readonly object topic_id
    cdef readonly int partition
    cdef readonly object error_code
    cdef readonly object appended_offset  # Produce: of the first record, in the response; None without one or after an error
    cdef readonly object data  # bytes; LoggedRecords of a decoded log
    cdef readonly bint unaligned  # whether it may start inside a batch


cpdef object instant(int64_t at)
cpdef tuple read_body(Frame frame)
cpdef Found gather_bodies(Exchange exchange, Body request, Body response)
cpdef list top_fields(Body request, Body response)
cpdef tuple exchange_row(int64_t number, Exchange exchange, Found found, list top, object undecoded)
cpdef list records_fields(Body request, Body response, object names)
cpdef list batch_rows(RecordsField field, object batches, object problems)
