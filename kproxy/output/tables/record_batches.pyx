# cython: language_level=3
"""Rows of the table record_batches: headers of batches, straight from their bytes."""

from libc.stdint cimport int64_t

from kproxy.output.tables.bodies cimport Body
from kproxy.output.tables.times cimport record_instant
from kproxy.output.tables.topics cimport topic_of
from kproxy.protocol.records.batches cimport Batch

from kproxy.protocol.records import DEFAULT_LIMITS, read_batches

cdef int64_t LARGEST_OFFSET = 0x7FFFFFFFFFFFFFFF


cdef class RecordsField:
    """One records field: a partition of a Produce request or of a Fetch response."""

    def __init__(
        self, str direction, topic, topic_id, int partition, error_code, appended_offset, bytes data, bint unaligned=False
    ):
        self.direction = direction
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.appended_offset = appended_offset
        self.data = data
        self.unaligned = unaligned

    def batches(self):
        """Its batches."""
        return read_batches(self.data, unaligned=self.unaligned)


cpdef list records_fields(Body request, Body response, object names):
    """The records fields of an exchange; None for an API that has none."""
    if request is not None and request.message.name == "ProduceRequest":
        return _produced(request.struct, None if response is None else response.struct, names)
    if response is not None and response.message.name in FETCHED:
        topics, index, records = FETCHED[response.message.name]
        return _fetched(response.struct, topics, index, records, names)
    return None


FETCHED = {  # the topics, a partition's number, its records field
    "FetchResponse": ("responses", "partition_index", "records"),
    "ShareFetchResponse": ("responses", "partition_index", "records"),
    "FetchSnapshotResponse": ("topics", "index", "unaligned_records"),
}


cdef list _produced(request, response, names):
    cdef dict answers = _answers(response)
    cdef list fields = []
    for topic in request.topic_data:
        given, given_id = topic.name, topic.topic_id
        name, topic_id = topic_of(given, given_id, names)
        for partition in topic.partition_data:
            index = partition.index
            answer = answers.get((given, given_id, index))
            error = offset = None
            if answer is not None:
                error, offset = answer.error_code, answer.base_offset
                if error or offset < 0:
                    offset = None
            fields.append(RecordsField("produce", name, topic_id, index, error, offset, partition.records or b""))
    return fields


cdef dict _answers(response):
    cdef dict answers = {}
    if response is None:
        return answers
    for topic in response.responses:
        name, topic_id = topic.name, topic.topic_id
        for partition in topic.partition_responses:
            answers[name, topic_id, partition.index] = partition
    return answers


cdef list _fetched(response, topics, index, records, names):
    cdef list fields = []
    cdef bint unaligned = records == "unaligned_records"
    for topic in getattr(response, topics):
        given = getattr(topic, "topic", None) or getattr(topic, "name", None)
        name, topic_id = topic_of(given, getattr(topic, "topic_id", None), names)
        for partition in topic.partitions:
            data = getattr(partition, records) or b""
            number, error = getattr(partition, index), partition.error_code
            fields.append(RecordsField("fetch", name, topic_id, number, error, None, data, unaligned))
    return fields


cpdef list batch_rows(RecordsField field, object batches, object problems):
    """The columns of record_batches from direction on; *problems* of records, by the position of their batch."""
    cdef list rows = []
    cdef tuple where = (field.direction, field.topic, field.topic_id, field.partition, field.error_code)
    cdef int64_t spent = 0
    cdef Batch batch
    offset = field.appended_offset
    for batch in batches:
        count = None
        if batch.magic < 2:
            count, unpacked = _count(batch, spent)
            spent += unpacked
        header = _header(batch, count)
        count = header[2]
        rows.append((*where, offset, *header, problems.get(batch.position) if problems else None))
        if offset is not None:
            offset = None if count is None or not 0 <= count <= LARGEST_OFFSET - offset else offset + count
    tail = batches.tail
    if tail is not None and tail.kind == "error":
        rows.append((*where, None, None, None, None, tail.size, *NO_HEADER, tail.reason))
    return rows


cdef tuple _count(Batch message, int64_t spent):
    """Records in a message of magic 0 or 1, and bytes unpacked to count them: the header of a wrapper does not say it."""
    if not message.is_wrapper:
        return 1, 0
    opened = message.open(DEFAULT_LIMITS.after(spent))
    readable = opened.error is None and opened.skipped is None
    return opened.claimed if readable else None, opened.unpacked_size


cdef tuple _header(Batch batch, count):
    """From base_offset to crc_valid."""
    cdef tuple said
    if batch.magic == 2:
        said = batch.described()
        return (
            said[0],
            said[1],
            said[2],
            batch.size,
            said[3],
            batch.magic,
            said[4],
            record_instant(said[5]),
            record_instant(said[6]),
            *said[7:],
            batch.has_valid_crc(),
        )
    return (
        batch.base_offset,
        batch.last_offset,
        count,
        batch.size,
        batch.compression,
        batch.magic,
        batch.timestamp_type,
        None,
        record_instant(batch.max_timestamp) if batch.magic else None,
        *NO_PRODUCER,
        batch.has_valid_crc(),
    )


cdef tuple NO_PRODUCER = (None,) * 6  # from partition_leader_epoch to is_control
cdef tuple NO_HEADER = (None,) * 12  # from codec to crc_valid
