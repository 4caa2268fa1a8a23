# cython: language_level=3
# What kproxy.output.tables.tables uses of rows.pyx.

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange, Frame


cdef class Body:
    cdef readonly object message  # type: Message
    cdef readonly int version
    cdef readonly object struct  # type: MessageStruct
    cdef readonly str name  # of the message
    cdef object form  # Form, in rows.pyx
    cdef bint is_kept  # whether equal bodies have this object; nothing may change it


cdef class Found:
    cdef readonly dict error_codes  # type: dict[int, None]
    cdef readonly dict topics  # type: dict[str, None]
    cdef readonly dict topic_ids  # type: dict[str, None]
    cdef readonly dict groups  # type: dict[str, None]
    cdef readonly dict transactional_ids  # type: dict[str, None]
    cdef public Py_ssize_t partitions

    cdef dict into(self, int kind)


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
cpdef tuple topic_of(object name, object topic_id, object names)
cpdef tuple read_body(Frame frame)
cpdef Found gather_bodies(Exchange exchange, Body request, Body response)
cpdef list top_fields(Body request, Body response)
cpdef tuple exchange_row(Exchange exchange, object undecoded)
cpdef tuple body_columns(Body request, Body response, Found found, object names)
cpdef list records_fields(Body request, Body response, object names)
cpdef list batch_rows(RecordsField field, object batches, object problems)
