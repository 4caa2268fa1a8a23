# cython: language_level=3
"""What a walk found in a body, for the compiled code that writes it into rows; the meaning is in body.pyx."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kproxy.output.tables.columns cimport Rows
from kproxy.protocol.program cimport Op, Program
from kproxy.protocol.wire cimport Buffer, Cursor
from kproxy.session.exchanges cimport Frame


cdef enum:
    MOST_TOP = 32  # columns that are fields at the top of bodies
    LISTS = 3  # of a partition
    KINDS = 4  # of names: layouts.Kind, and the keys of FindCoordinator


cdef struct Text:
    const uint8_t *at  # NULL: null, or the message has none
    int32_t size


cdef struct Partition:  # a partition in a body; what its message does not have is as Kafka's default
    Text group
    Text topic
    const uint8_t *topic_id  # NULL: none, or zero
    int32_t index
    int16_t error_code
    int16_t acknowledge_error
    int32_t leader_id  # -1: none, or the message has none
    int32_t leader_epoch
    const uint8_t *lists[LISTS]  # where they begin, with their count: layouts.Part; NULL: there is none
    int64_t offset  # requested, committed, base or answered offset
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t log_start_offset
    int64_t timestamp
    Text records


cdef class Body:
    cdef readonly object message  # type: Message
    cdef readonly int version
    cdef readonly str name  # of the message
    cdef readonly str problem  # type: str | None  # why the frame's body cannot be read
    cdef Program program
    cdef object plan  # Plan, in body.pyx
    cdef bytes data
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef list logged  # type: list[LoggedRecords] | None  # of a decoded log: the records fields, which data has the numbers of
    cdef object decoded
    cdef const uint8_t *top[MOST_TOP]  # where the fields of TOP_FIELDS begin; NULL: not there
    cdef Op **lists  # LISTS of the partitions
    cdef Buffer codes  # int16 each, no code twice
    cdef Buffer[KINDS] names  # Text each, by their kind
    cdef Buffer topic_ids  # pointer to 16 bytes each
    cdef Buffer found  # Partition each
    cdef Buffer ordered  # pointer to Partition each, by what identifies them
    cdef Py_ssize_t partitions  # under topics
    cdef int resource  # layouts.Kind of the name that follows; -1: another
    cdef readonly int key_type  # of FindCoordinator
    cdef Text group  # of the partitions that follow
    cdef Text topic
    cdef const uint8_t *topic_id

    cdef bint read(self, Frame frame) except -1
    cdef int walk(self) except -1
    cdef int order(self) except -1
    cdef list error_codes(self)
    cdef Py_ssize_t count(self) noexcept
    cdef Partition *partition(self, Py_ssize_t number) noexcept
    cdef Partition *same(self, Partition *sought) noexcept
    cdef bint is_first(self, Partition *one) noexcept
    cdef Text first_name(self, int kind) noexcept


cdef Cursor list_at(Body body, Partition *partition, int number, int32_t *count) except *
cdef object topic_name(Partition *partition, names)
cdef object id_of(const uint8_t *topic_id)
cdef int put_text(Rows rows, Py_ssize_t at, Text text) except -1
cdef int put_topic(Rows rows, Py_ssize_t name_at, Py_ssize_t id_at, Partition *partition, names) except -1
cdef int put_codes(Rows rows, Py_ssize_t at, Body response) except -1
cdef int put_topics(Rows rows, Py_ssize_t at, Body request, Body response, names) except -1
cdef int put_names(Rows rows, Py_ssize_t at, int kind, Body request, Body response) except -1
cdef int put_top_fields(Rows rows, Py_ssize_t at, Body request, Body response) except -1
cdef int put_top_field(Rows rows, Py_ssize_t at, Body body, int column) except -1
