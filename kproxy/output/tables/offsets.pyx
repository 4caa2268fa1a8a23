# cython: language_level=3
"""Rows of the table offsets: positions of consumers and followers, offsets that groups committed, ends of logs.

Compiled because most exchanges of consumers come here.
"""

from operator import attrgetter

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Body, instant, topic_of
from kproxy.session.exchanges cimport Exchange, Frame

NUMBER, INDEX = attrgetter("partition"), attrgetter("partition_index")  # what messages call a partition's number
cdef tuple NO_ENDS = (None, None, None)  # high_watermark, last_stable_offset, log_start_offset


cdef class OffsetWriter:
    """Writes the offsets of one exchange; ``head`` and what is the same in all its rows are set before."""

    cdef Rows rows
    cdef tuple head  # connection_id, broker, exchange
    cdef object seen_at
    cdef str kind
    cdef object client_id
    cdef object names

    cdef int put(
        self, tuple key, group_id, replica_id, offset, error_code, tuple ends=NO_ENDS, requested_timestamp=None
    ) except -1:
        """Write a row. *key*: name, id and number of a partition, as the bodies have them."""
        name, topic_id = topic_of(key[0], key[1], self.names)
        self.rows.put(self.head)
        self.rows.put((self.seen_at, self.kind, self.client_id, group_id, replica_id, name, topic_id, key[2], offset))
        self.rows.put(ends)
        self.rows.put((requested_timestamp, error_code))
        return self.rows.end()


cpdef int write_offsets(
    Rows rows, tuple head: tuple[str, str | None, int], Exchange exchange, Body request, Body response: Body | None,
) except -1:  # type: (...) -> None
    """Write the rows of an exchange whose request is a message of ROWS. *head*: the columns up to ``exchange``."""
    cdef OffsetWriter writer = OffsetWriter.__new__(OffsetWriter)
    cdef Frame asked = exchange.request
    cdef Frame answered = exchange.response
    writer.rows, writer.head, writer.client_id, writer.names = rows, head, exchange.client_id, exchange.topic_names
    if answered is not None:
        writer.seen_at = instant(answered.ended_at)
    elif asked is not None:
        writer.seen_at = instant(asked.started_at)
    writer.kind, write = ROWS[request.name]
    write(writer, request.struct, None if response is None else response.struct)
    return 0


def _fetch(OffsetWriter writer, request, response):
    cdef dict sent = _partitions(request.topics, "topic")
    cdef dict answered = {} if response is None else _partitions(response.responses, "topic")
    replica_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    for key in sent | answered:
        requested, answer = sent.get(key), answered.get(key)
        ends = NO_ENDS if answer is None else (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        writer.put(key, None, replica_id, None if requested is None else requested.fetch_offset, _error(answer), ends)


def _list(OffsetWriter writer, request, response):
    cdef dict answered = {} if response is None else _partitions(response.topics, "name")
    for key, sent in _partitions(request.topics, "name").items():
        answer = answered.get(key)
        offset = None if answer is None else answer.offset
        if answer is not None and answer.old_style_offsets:  # version 0
            offset = answer.old_style_offsets[0]
        writer.put(key, None, request.replica_id, offset, _error(answer), NO_ENDS, sent.timestamp)


def _commit(OffsetWriter writer, request, response):
    cdef dict answered = {} if response is None else _partitions(response.topics, "name")
    group_id = request.group_id or ""
    for key, sent in _partitions(request.topics, "name").items():
        writer.put(key, group_id, None, sent.committed_offset, _error(answered.get(key)))


def _committed(OffsetWriter writer, request, response):
    if response is None:
        return
    groups = [(group.group_id, group.topics) for group in response.groups or ()]
    for group_id, topics in groups or [(request.group_id, response.topics)]:
        for key, sent in _partitions(topics, "name").items():
            writer.put(key, group_id or "", None, sent.committed_offset, sent.error_code)


ROWS = {
    "FetchRequest": ("fetch", _fetch),
    "ListOffsetsRequest": ("list", _list),
    "OffsetCommitRequest": ("commit", _commit),
    "TxnOffsetCommitRequest": ("commit", _commit),
    "OffsetFetchRequest": ("committed", _committed),
}


cdef dict _partitions(topics, str name):
    """Return the partitions of topics by topic name, topic id and number; a repeated one replaces the one before."""
    cdef dict by_key = {}
    number_of = None
    for topic in topics or ():
        topic_name, topic_id = getattr(topic, name), topic.topic_id if "topic_id" in topic.by_attribute else None
        for partition in topic.partitions or ():
            if number_of is None:  # all are of one class
                number_of = NUMBER if "partition" in partition.by_attribute else INDEX
            by_key[topic_name, topic_id, number_of(partition)] = partition
    return by_key


cdef object _error(answer):
    return None if answer is None else answer.error_code
