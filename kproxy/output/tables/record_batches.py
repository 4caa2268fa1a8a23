"""Rows of the table record_batches: headers of batches, straight from their bytes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kproxy.output.escaping import well_formed
from kproxy.output.tables.bodies import Body
from kproxy.output.tables.gather import NO_TOPIC_ID
from kproxy.output.tables.times import record_time
from kproxy.protocol.records import DEFAULT_LIMITS, Batch, Batches, read_batches

Row = tuple[Any, ...]
NO_ERROR = 0
LARGEST_OFFSET = 2**63 - 1


@dataclass(slots=True)
class RecordsField:
    """One records field: a partition of a Produce request or of a Fetch response."""

    direction: str
    topic: str | None
    topic_id: str | None
    partition: int
    error_code: int | None
    appended_offset: int | None
    data: bytes
    unaligned: bool = False

    def batches(self) -> Batches:
        """Its batches."""
        return read_batches(self.data, unaligned=self.unaligned)


def records_fields(
    request: Body | None, response: Body | None, names: Mapping[str, str]
) -> Iterator[RecordsField] | None:
    """The records fields of an exchange; None for an API that has none."""
    if request is not None and request.message.name == "ProduceRequest":
        return _produced(request.struct, None if response is None else response.struct, names)
    if response is not None and response.message.name in FETCHED:
        return _fetched(response.struct, *FETCHED[response.message.name], names)
    return None


FETCHED = {  # the topics, a partition's number, its records field
    "FetchResponse": ("responses", "partition_index", "records"),
    "ShareFetchResponse": ("responses", "partition_index", "records"),
    "FetchSnapshotResponse": ("topics", "index", "unaligned_records"),
}


def _produced(request: Any, response: Any, names: Mapping[str, str]) -> Iterator[RecordsField]:
    answers = _answers(response)
    for topic in request.topic_data:
        name, topic_id = _names(topic.name, topic.topic_id, names)
        for partition in topic.partition_data:
            answer = answers.get((topic.name, topic.topic_id, partition.index))
            error = None if answer is None else answer.error_code
            offset = (
                answer.base_offset if answer is not None and error == NO_ERROR and answer.base_offset >= 0 else None
            )
            yield RecordsField("produce", name, topic_id, partition.index, error, offset, partition.records or b"")


def _answers(response: Any) -> dict[tuple[str, str, int], Any]:
    if response is None:
        return {}
    return {
        (topic.name, topic.topic_id, partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _fetched(response: Any, topics: str, index: str, records: str, names: Mapping[str, str]) -> Iterator[RecordsField]:
    for topic in getattr(response, topics):
        given = getattr(topic, "topic", None) or getattr(topic, "name", None)
        name, topic_id = _names(given, getattr(topic, "topic_id", None), names)
        for partition in topic.partitions:
            data = getattr(partition, records) or b""
            number, error = getattr(partition, index), partition.error_code
            yield RecordsField("fetch", name, topic_id, number, error, None, data, records == "unaligned_records")


def _names(name: str | None, topic_id: str | None, names: Mapping[str, str]) -> tuple[str | None, str | None]:
    if topic_id == NO_TOPIC_ID:
        topic_id = None
    if not name and topic_id is not None:
        name = names.get(topic_id)
    return (well_formed(name) if name else None), topic_id


def batch_rows(field: RecordsField, batches: Batches, problems: Mapping[int, str]) -> Iterator[Row]:
    """The columns of record_batches from direction on; *problems* of records, by the position of their batch."""
    where: Row = (field.direction, field.topic, field.topic_id, field.partition, field.error_code)
    offset = field.appended_offset
    spent = 0
    for batch in batches:
        count, unpacked = _count(batch, spent)
        spent += unpacked
        yield (*where, offset, *_header(batch, count), problems.get(batch.position))
        if offset is not None:
            offset = None if count is None or not 0 <= count <= LARGEST_OFFSET - offset else offset + count
    if batches.tail is not None and batches.tail.kind == "error":
        size = batches.tail.size
        yield (*where, None, None, None, None, size, *NO_HEADER, batches.tail.reason)


def _count(batch: Batch, spent: int) -> tuple[int | None, int]:
    """Records as the header claims, and bytes unpacked: the records of a wrapper are counted, as no header does."""
    if not batch.is_wrapper:
        return batch.count, 0
    opened = batch.open(DEFAULT_LIMITS.after(spent))
    readable = opened.error is None and opened.skipped is None
    return opened.claimed if readable else None, opened.unpacked_size


def _header(batch: Batch, count: int | None) -> Row:
    is_newest = batch.magic == 2
    leader_epoch, producer_id, producer_epoch, base_sequence = batch.producer if is_newest else NO_PRODUCER
    return (
        batch.base_offset,
        batch.last_offset,
        count,
        batch.size,
        batch.compression,
        batch.magic,
        batch.timestamp_type,
        record_time(batch.base_timestamp),
        record_time(batch.max_timestamp),
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        batch.is_transactional if is_newest else None,
        batch.is_control if is_newest else None,
        batch.crc_valid,
    )


NO_PRODUCER: tuple[int | None, ...] = (None, None, None, None)
NO_HEADER: tuple[None, ...] = (None,) * 12  # from codec to crc_valid
