# cython: language_level=3
"""Rows of the table offsets: positions of consumers and followers, offsets that groups committed, ends of logs.

Compiled because most exchanges of consumers come here.
"""

from collections.abc import Mapping  # no-cython-lint
from operator import attrgetter
from typing import Any

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Body, instant, topic_of
from kproxy.session.exchanges cimport Exchange, Frame

NUMBER, INDEX = attrgetter("partition"), attrgetter("partition_index")  # what messages call a partition's number
cdef tuple NO_ENDS = (None, None, None)  # high_watermark, last_stable_offset, log_start_offset


cpdef int write_offsets(
    Rows rows, tuple head: tuple[str, str | None, int], Exchange exchange, str kind, list offsets: list[tuple[Any, ...]],
) except -1:  # type: (...) -> None
    """Write what find_offsets found in an exchange. *head*: the columns up to ``exchange``."""
    cdef Frame asked = exchange.request
    cdef Frame answered = exchange.response
    cdef tuple same
    cdef tuple row
    seen_at = None
    if answered is not None:
        seen_at = instant(answered.ended_at)
    elif asked is not None:
        seen_at = instant(asked.started_at)
    same = (*head, seen_at, kind, exchange.client_id)
    for row in offsets:
        rows.put(same)
        rows.put(row)
        rows.end()
    return 0


cpdef tuple find_offsets(
    Body request, Body response: Body | None, names: Mapping[str, str],
):  # type: (...) -> tuple[str, list[tuple[Any, ...]]]
    """Return the kind of the offsets in a message of ROWS, and their rows from ``group_id`` on. *names*: of topic ids."""
    kind, find = ROWS[request.name]
    return kind, find(names, request.struct, None if response is None else response.struct)


cdef tuple _row(
    names, tuple key, group_id, replica_id, offset, error_code, tuple ends=NO_ENDS, requested_timestamp=None
):
    """Return a row. *key*: name, id and number of a partition, as the bodies have them."""
    name, topic_id = topic_of(key[0], key[1], names)
    return group_id, replica_id, name, topic_id, key[2], offset, *ends, requested_timestamp, error_code


def _fetch(names, request, response):
    cdef dict sent = _partitions(request.topics, "topic")
    cdef dict answered = {} if response is None else _partitions(response.responses, "topic")
    cdef list rows = []
    replica_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    for key in sent | answered:
        requested, answer = sent.get(key), answered.get(key)
        ends = NO_ENDS if answer is None else (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        rows.append(_row(names, key, None, replica_id, None if requested is None else requested.fetch_offset, _error(answer), ends))
    return rows


def _list(names, request, response):
    cdef dict answered = {} if response is None else _partitions(response.topics, "name")
    cdef list rows = []
    for key, sent in _partitions(request.topics, "name").items():
        answer = answered.get(key)
        offset = None if answer is None else answer.offset
        if answer is not None and answer.old_style_offsets:  # version 0
            offset = answer.old_style_offsets[0]
        rows.append(_row(names, key, None, request.replica_id, offset, _error(answer), NO_ENDS, sent.timestamp))
    return rows


def _commit(names, request, response):
    cdef dict answered = {} if response is None else _partitions(response.topics, "name")
    cdef list rows = []
    group_id = request.group_id or ""
    for key, sent in _partitions(request.topics, "name").items():
        rows.append(_row(names, key, group_id, None, sent.committed_offset, _error(answered.get(key))))
    return rows


def _committed(names, request, response):
    cdef list rows = []
    if response is None:
        return rows
    groups = [(group.group_id, group.topics) for group in response.groups or ()]
    for group_id, topics in groups or [(request.group_id, response.topics)]:
        for key, sent in _partitions(topics, "name").items():
            rows.append(_row(names, key, group_id or "", None, sent.committed_offset, sent.error_code))
    return rows


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
