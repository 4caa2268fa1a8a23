"""Rows of the table offsets: positions of consumers and followers, offsets that groups committed, ends of logs."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from kproxy.output.escaping import well_formed
from kproxy.output.tables.rows import Body, instant, topic_of
from kproxy.session import Exchange

Row = tuple[Any, ...]
Key = tuple[str | None, str | None, int]  # name, id and number of a partition, as the bodies have them
NO_BODY: dict[Key, Any] = {}
NUMBER, INDEX = attrgetter("partition"), attrgetter("partition_index")  # what messages call a partition's number


class Offset(NamedTuple):
    """What an exchange says of one partition; from ``offset`` on in the order of the contract's columns."""

    key: Key
    group_id: str | None = None
    replica_id: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    requested_timestamp: int | None = None
    error_code: int | None = None


def offset_rows(exchange: Exchange, request: Body | None, response: Body | None) -> Iterator[Row]:
    """Yield rows of the table offsets, from column ``at`` on; none for an exchange that is not about offsets."""
    if request is None or request.message.name not in ROWS:
        return
    kind, read = ROWS[request.message.name]
    frame = exchange.request if exchange.response is None else exchange.response
    at = None if frame is None else instant(frame.ended_at if frame is exchange.response else frame.started_at)
    client_id = None if exchange.client_id is None else well_formed(exchange.client_id)
    for one in read(request.struct, None if response is None else response.struct):
        name, topic_id = topic_of(one.key[0], one.key[1], exchange.topic_names)
        yield at, kind, client_id, one.group_id, one.replica_id, name, topic_id, one.key[2], *one[3:]


def _fetch(request: Any, response: Any) -> Iterator[Offset]:
    sent = _partitions(request.topics, "topic")
    answered = NO_BODY if response is None else _partitions(response.responses, "topic")
    replica_id = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    for key in {**sent, **answered}:
        requested, answer = sent.get(key), answered.get(key)
        ends: tuple[Any, Any, Any] = (None, None, None)
        if answer is not None:
            ends = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        offset = None if requested is None else requested.fetch_offset
        yield Offset(key, None, replica_id, offset, *ends, error_code=_error(answer))


def _list(request: Any, response: Any) -> Iterator[Offset]:
    answered = NO_BODY if response is None else _partitions(response.topics)
    for key, sent in _partitions(request.topics).items():
        answer = answered.get(key)
        offset = None if answer is None else answer.offset
        if answer is not None and answer.old_style_offsets:  # version 0
            offset = answer.old_style_offsets[0]
        replica_id, timestamp = request.replica_id, sent.timestamp
        yield Offset(key, None, replica_id, offset, requested_timestamp=timestamp, error_code=_error(answer))


def _commit(request: Any, response: Any) -> Iterator[Offset]:
    answered = NO_BODY if response is None else _partitions(response.topics)
    group_id = well_formed(request.group_id or "")
    for key, sent in _partitions(request.topics).items():
        yield Offset(key, group_id, offset=sent.committed_offset, error_code=_error(answered.get(key)))


def _committed(request: Any, response: Any) -> Iterator[Offset]:
    if response is None:
        return
    groups = [(group.group_id, group.topics) for group in response.groups or ()]
    for group_id, topics in groups or [(request.group_id, response.topics)]:
        for key, sent in _partitions(topics).items():
            yield Offset(key, well_formed(group_id or ""), offset=sent.committed_offset, error_code=sent.error_code)


ROWS = {
    "FetchRequest": ("fetch", _fetch),
    "ListOffsetsRequest": ("list", _list),
    "OffsetCommitRequest": ("commit", _commit),
    "TxnOffsetCommitRequest": ("commit", _commit),
    "OffsetFetchRequest": ("committed", _committed),
}


def _partitions(topics: Iterable[Any] | None, name: str = "name") -> dict[Key, Any]:
    """Return the partitions of topics by topic name, topic id and number; a repeated one replaces the one before."""
    by_key: dict[Key, Any] = {}
    number_of = None
    for topic in topics or ():
        topic_name, topic_id = getattr(topic, name), topic.topic_id if "topic_id" in topic.by_attribute else None
        for partition in topic.partitions or ():
            if number_of is None:  # all are of one class
                number_of = NUMBER if "partition" in partition.by_attribute else INDEX
            by_key[topic_name, topic_id, number_of(partition)] = partition
    return by_key


def _error(answer: Any) -> int | None:
    code: int | None = None if answer is None else answer.error_code
    return code
