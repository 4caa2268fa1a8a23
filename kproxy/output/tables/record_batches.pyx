# cython: language_level=3, nonecheck=True
"""Rows of the table record_batches: headers of batches, straight from their bytes."""

from libc.stdint cimport int64_t

from kproxy.output.tables.bodies cimport Body
from kproxy.output.tables.gather cimport Slot
from kproxy.output.tables.times cimport record_instant
from kproxy.output.tables.topics cimport topic_of
from kproxy.protocol.records.batches cimport Batch

from kproxy.protocol.records import DEFAULT_LIMITS, read_batches
from kproxy.protocol.structs import struct_types

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
    cdef FetchSlots fetched
    if request is not None and request.form.name == "ProduceRequest":
        return _produced(request.struct, None if response is None else response.struct, names)
    fetched = None if response is None else FETCHED.get(response.form.name)
    return None if fetched is None else _fetched(response.struct, fetched, names)


cdef Slot _slot(str message, str struct, str name):
    return Slot(struct_types(message)[struct], name)


cdef class FetchSlots:
    """Where the records fields are in the struct of a message that fetches."""

    cdef Slot topics
    cdef Slot name  # None where topics are called by their ids alone
    cdef Slot topic_id  # None where they have none
    cdef Slot partitions
    cdef Slot index
    cdef Slot error_code
    cdef Slot records
    cdef bint unaligned

    def __init__(self, str message, str topics, str topic, str name, str partition, str index, str records):
        has_id = "topic_id" in struct_types(message)[topic].by_attribute
        self.topics = _slot(message, message, topics)
        self.name = None if name is None else _slot(message, topic, name)
        self.topic_id = _slot(message, topic, "topic_id") if has_id else None
        self.partitions = _slot(message, topic, "partitions")
        self.index = _slot(message, partition, index)
        self.error_code = _slot(message, partition, "error_code")
        self.records = _slot(message, partition, records)
        self.unaligned = records == "unaligned_records"


cdef dict FETCHED = {
    message: FetchSlots(message, *slots)
    for message, slots in {
        "FetchResponse": ("responses", "FetchableTopicResponse", "topic", "PartitionData", "partition_index", "records"),
        "ShareFetchResponse": ("responses", "ShareFetchableTopicResponse", None, "PartitionData", "partition_index", "records"),
        "FetchSnapshotResponse": ("topics", "TopicSnapshot", "name", "PartitionSnapshot", "index", "unaligned_records"),
    }.items()
}
cdef Slot TOPIC_DATA = _slot("ProduceRequest", "ProduceRequest", "topic_data")
cdef Slot TOPIC = _slot("ProduceRequest", "TopicProduceData", "name")
cdef Slot TOPIC_ID = _slot("ProduceRequest", "TopicProduceData", "topic_id")
cdef Slot PARTITION_DATA = _slot("ProduceRequest", "TopicProduceData", "partition_data")
cdef Slot INDEX = _slot("ProduceRequest", "PartitionProduceData", "index")
cdef Slot RECORDS = _slot("ProduceRequest", "PartitionProduceData", "records")
cdef Slot RESPONSES = _slot("ProduceResponse", "ProduceResponse", "responses")
cdef Slot ANSWERED_TOPIC = _slot("ProduceResponse", "TopicProduceResponse", "name")
cdef Slot ANSWERED_ID = _slot("ProduceResponse", "TopicProduceResponse", "topic_id")
cdef Slot ANSWERS = _slot("ProduceResponse", "TopicProduceResponse", "partition_responses")
cdef Slot ANSWERED_INDEX = _slot("ProduceResponse", "PartitionProduceResponse", "index")
cdef Slot ERROR_CODE = _slot("ProduceResponse", "PartitionProduceResponse", "error_code")
cdef Slot BASE_OFFSET = _slot("ProduceResponse", "PartitionProduceResponse", "base_offset")


cdef list _produced(request, response, names):
    cdef dict answers = _answers(response)
    cdef list fields = []
    for topic in TOPIC_DATA.of(request):
        given, given_id = TOPIC.of(topic), TOPIC_ID.of(topic)
        name, topic_id = topic_of(given, given_id, names)
        for partition in PARTITION_DATA.of(topic):
            index = INDEX.of(partition)
            answer = answers.get((given, given_id, index))
            error = offset = None
            if answer is not None:
                error, offset = ERROR_CODE.of(answer), BASE_OFFSET.of(answer)
                if error or offset < 0:
                    offset = None
            data = RECORDS.of(partition) or b""
            fields.append(new_field("produce", name, topic_id, index, error, offset, data, False))
    return fields


cdef dict _answers(response):
    cdef dict answers = {}
    if response is None:
        return answers
    for topic in RESPONSES.of(response):
        name, topic_id = ANSWERED_TOPIC.of(topic), ANSWERED_ID.of(topic)
        for partition in ANSWERS.of(topic):
            answers[name, topic_id, ANSWERED_INDEX.of(partition)] = partition
    return answers


cdef list _fetched(response, FetchSlots slots, names):
    cdef list fields = []
    for topic in slots.topics.of(response):
        given = None if slots.name is None else slots.name.of(topic)
        given_id = None if slots.topic_id is None else slots.topic_id.of(topic)
        name, topic_id = topic_of(given, given_id, names)
        for partition in slots.partitions.of(topic):
            number, error, data = slots.index.of(partition), slots.error_code.of(partition), slots.records.of(partition)
            fields.append(new_field("fetch", name, topic_id, number, error, None, data or b"", slots.unaligned))
    return fields


cdef RecordsField new_field(
    str direction, topic, topic_id, int partition, error_code, appended_offset, bytes data, bint unaligned
):
    cdef RecordsField field = RecordsField.__new__(RecordsField)
    field.direction = direction
    field.topic = topic
    field.topic_id = topic_id
    field.partition = partition
    field.error_code = error_code
    field.appended_offset = appended_offset
    field.data = data
    field.unaligned = unaligned
    return field


cpdef list batch_rows(RecordsField field, object batches, object problems):
    """The columns of record_batches from direction on; *problems* of records, by the position of their batch."""
    cdef list rows = []
    cdef tuple where = (field.direction, field.topic, field.topic_id, field.partition, field.error_code)
    cdef int64_t spent = 0
    cdef Batch batch
    cdef tuple header
    offset = field.appended_offset
    for batch in batches:
        count = None
        if batch.magic < 2:
            count, unpacked = _count(batch, spent)
            spent += unpacked
        header = _header(batch, count)
        count = header[2]
        problem = problems.get(batch.position) if problems else None
        rows.append(where + (offset,) + header + (problem,))  # sums: unpacking makes a list of each row first
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
            said[7],
            said[8],
            said[9],
            said[10],
            said[11],
            said[12],
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
