"""Decode a records field: always the batch headers; the records of Kafka's own topics, or of all topics with viewers.

Headers need no decompression, except to count the compressed messages of magic 0 and 1. Decoded are control batches, the records
of internal topics, and on demand those of all topics, through content viewers. Internal topics:

    __consumer_offsets, __transaction_state, __share_group_state
        key     INT16 type of the record, then the key's message (before 4.0 this was the version of the key)
        value   INT16 version, then the value's message; null: the key is deleted (a tombstone)
    __cluster_metadata, __remote_log_metadata
        value   uvarint frame version 1, uvarint type, uvarint version, then the message (AbstractApiMessageSerde)

The facts map a type to its message (apiKey in the schemas).
"""

import functools
import json
from typing import Any

import msgspec

from kproxy.errors import DecodeError, Malformed, UnknownVersion
from kproxy.protocol.constants import COORDINATOR_TOPICS, FRAMED_TOPICS, INTERNAL_TOPICS, NOT_APPENDED
from kproxy.protocol.embedded import group
from kproxy.protocol.embedded.payload import Context, Opening
from kproxy.protocol.embedded.reader import Reader
from kproxy.protocol.embedded.viewers import Content, Viewers
from kproxy.protocol.facts import facts
from kproxy.protocol.message import Message, message
from kproxy.protocol.records import (
    DEFAULT_LIMITS,
    Batch,
    Batches,
    OpenBatch,
    Record,
    count_records,
    open_batches,
    read_batches,
)
from kproxy.protocol.records.batches import headers_json
from kproxy.protocol.records.objects import read_objects

MOST_BATCHES = 1_000  # headers shown for one field
MOST_RECORDS = 10_000  # records shown for one field


def open_records(
    data: bytes,
    topic: str | None,
    partition: int,
    topic_id: str | None = None,
    unaligned: bool = False,
    viewers: Viewers | None = None,
) -> dict[str, Any]:
    """Decode a records field to the JSON of kind "records".

    ``topic`` (null if only an unknown id is known), ``topicId`` if there is one, ``partition``, ``count`` (records in all
    complete batches), ``batches`` (their headers), ``records`` if they are decoded. ``batchesLeftOut`` and ``recordsLeftOut``
    count what is not shown, ``trailingBytes`` the bytes behind the last complete batch, ``skippedStart`` those before the first
    one; ``error`` says why the field could not be read to its end.

    Args:
        data: the field.
        topic, topic_id, partition: where the records belong.
        unaligned: the field may begin inside a batch (FetchSnapshot).
        viewers: decode the records of ordinary topics with these.
    """
    opened: dict[str, Any] = {"topic": topic} if topic_id is None else {"topic": topic, "topicId": topic_id}
    opened["partition"] = partition
    start = read_batches(data, unaligned=True).skipped_start if unaligned else 0
    headers, count = headers_json(data, start, MOST_BATCHES)
    only_headers = viewers is None and topic not in INTERNAL_TOPICS
    opened["count"] = count_records(data[start:]) if count is None else count
    opened["batches"] = msgspec.Raw(headers)
    if count is not None and only_headers and not start:
        return opened  # nearly always
    batches = read_batches(data, unaligned=unaligned)
    if len(batches) > MOST_BATCHES:
        opened["batchesLeftOut"] = len(batches) - MOST_BATCHES
    if batches.skipped_start or batches.tail is not None:
        _add_edges(batches, opened)
    if not only_headers:
        _add_records(batches, topic, viewers, opened)
    elif controls := [batch for batch in batches if batch.is_control]:
        _add_records(controls, topic, None, opened)
    return opened


def _add_edges(batches: Batches, opened: dict[str, Any]) -> None:
    if batches.skipped_start:
        opened["skippedStart"] = batches.skipped_start
    if batches.tail is not None:
        opened["trailingBytes"] = batches.tail.size
    if batches.error is not None:
        opened["error"] = batches.error


def _add_records(to_open: list[Batch], topic: str | None, viewers: Viewers | None, opened: dict[str, Any]) -> None:
    """Decode batches one by one, up to MOST_RECORDS records."""
    shown: list[Any] = []
    left_out = 0
    for number, batch in enumerate(open_batches(to_open, DEFAULT_LIMITS)):
        if len(shown) >= MOST_RECORDS:
            left_out += sum(max(later.count or 0, 0) for later in to_open[number:])
            break
        left_out += _add_batch(batch, topic, viewers, shown)
    opened["records"] = shown
    if left_out:
        opened["recordsLeftOut"] = left_out


def _add_batch(opened: OpenBatch, topic: str | None, viewers: Viewers | None, shown: list[Any]) -> int:
    """Add one batch's records, and why some are missing; return how many did not fit."""
    if opened.skipped is not None:
        shown.append({"offset": opened.batch.base_offset, "skipped": opened.skipped})
        return 0
    records, error = read_objects(opened)
    room = max(MOST_RECORDS - len(shown), 0)
    for record in records[:room]:
        row: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
        if opened.batch.is_control:
            row["control"] = _control(record)
        elif topic in INTERNAL_TOPICS:
            row |= open_record(str(topic), record.key, record.value)
        elif viewers is not None:
            is_stored = opened.batch.partition_leader_epoch != NOT_APPENDED
            row |= _viewed(record, record.offset if is_stored else None, topic, viewers)
        shown.append(row)
    if error is not None:
        shown.append({"offset": None, "error": error})
    return max(len(records) - room, 0)


def _control(record: Record) -> dict[str, Any]:
    from kproxy.protocol.records.control import read_control_record  # noqa: PLC0415 - few captures have any

    read = read_control_record(record.key, record.value)
    control: dict[str, Any] = {"version": read.version, "typeId": read.type_id, "type": read.type}
    control["value"] = None if read.json is None else msgspec.Raw(read.json)
    return control if read.error is None else control | {"error": read.error}


def _viewed(record: Record, offset: int | None, topic: str | None, viewers: Viewers) -> dict[str, Any]:
    """Return key, value and headers of an ordinary record, as the viewers show them."""
    headers = [
        {
            "key": _readable(name),
            "value": _raw(viewers.view(value, Content(topic, name, key=record.key, is_header=True))),
        }
        for name, value in record.headers
    ]
    return {
        "key": _raw(viewers.view(record.key, Content(topic, "key", record.headers, None, offset))),
        "value": _raw(viewers.view(record.value, Content(topic, "value", record.headers, record.key, offset))),
        "headers": headers,
    }


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _raw(view: dict[str, Any] | None) -> msgspec.Raw:
    """Return JSON by Python's own writer, which takes integers of any size; a lone surrogate becomes "?"."""
    return msgspec.Raw(json.dumps(view, ensure_ascii=False).encode("utf-8", "replace"))


FRAME_VERSION = 1  # 0 was the 2.8 preview's, with different records


def open_record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode to ``key`` and ``value``, each ``message``, ``version``, ``value``, or null if the record has none.

    Group metadata also has ``embedded``: the payloads of its members, with paths into the record. An unreadable key or value
    becomes ``{"error": why}``. Raises KeyError for a topic that is not internal.
    """
    if topic in FRAMED_TOPICS:
        return {"key": _open(_refused_key, key), "value": _open(_framed, value, FRAMED_TOPICS[topic])}
    module = COORDINATOR_TOPICS[topic]
    opened = {"key": _open(_coordinator_key, key, module), "value": _open(_coordinator_value, value, module, key)}
    if value is not None and "error" not in opened["value"] and opened["value"]["message"] == "GroupMetadataValue":
        opened["embedded"] = _members(value, opened["value"]["version"])
    return opened


def _open(read: Any, data: bytes | None, *args: Any) -> Any:
    if data is None:
        return None
    try:
        return read(data, *args)
    except DecodeError as error:
        return {"error": str(error)}


def _refused_key(data: bytes) -> Any:
    raise Malformed(f"{len(data)} bytes, where no key is expected", message="record key")


def _coordinator_key(data: bytes, module: str) -> dict[str, Any]:
    record_type = Reader("record key", data).int16()
    layout = _layouts(module, "key").get(record_type)
    if layout is None:
        raise UnknownVersion(f"no record of type {record_type} is known", message="record key")
    # if the type was the version, the layout has no version 0
    version = 0 if 0 in layout.versions else record_type
    return _body(layout, version, data, 2)


def _coordinator_value(data: bytes, module: str, key: bytes | None) -> dict[str, Any]:
    if key is None:
        raise Malformed("a value without a key that would tell what it is", message="record value")
    record_type = Reader("record key", key).int16()
    layout = _layouts(module, "value").get(record_type)
    if layout is None:
        raise UnknownVersion(f"no record of type {record_type} is known", message="record value")
    version = Reader(layout.name, data).int16()
    if version not in layout.versions and layout.name.startswith("Legacy"):
        layout = message(layout.name.removeprefix("Legacy"))  # before 4.0 both had the same values
    return _body(layout, version, data, 2)


def _framed(data: bytes, module: str) -> dict[str, Any]:
    reader = Reader("record value", data)
    frame, record_type, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame != FRAME_VERSION:
        raise UnknownVersion(f"frame version {frame}, only {FRAME_VERSION} is known", message="record value")
    layout = _layouts(module, "framed").get(record_type)
    if layout is None:
        raise UnknownVersion(f"no record of type {record_type} is known", message="record value")
    return _body(layout, version, data, reader.position)


def _body(layout: Message, version: int, data: bytes, start: int) -> dict[str, Any]:
    value = layout.to_json(version, data, start, withhold=True)
    return {"message": layout.name, "version": version, "value": msgspec.Raw(value)}


def _members(value: bytes, version: int) -> list[msgspec.Raw]:
    opening = Opening(None, Context())
    metadata: Any = message("GroupMetadataValue").decode(version, value, 2)
    kind = metadata.protocol_type
    for index, member in enumerate(metadata.members):
        at = f"value.members[{index}]"
        protocol = metadata.protocol if kind == "connect" else None
        group.add_metadata(opening, f"{at}.subscription", member.subscription, kind, protocol)
        group.add_assignment(opening, f"{at}.assignment", member.assignment, kind, protocol)
    return [msgspec.Raw(one.to_json()) for one in opening.found]


@functools.cache
def _layouts(module: str, part: str) -> dict[int, Message]:
    """Return record type -> message, for the keys, values or framed records of a module; newest schemas first."""
    types = {"key": "coordinator-key", "value": "coordinator-value", "framed": "metadata"}
    current: dict[int, Message] = {}
    older: dict[int, Message] = {}
    for name in facts().messages():
        if name.endswith(("Request", "Response")):
            continue
        for layout in facts().layouts(name):
            if layout.module != module:
                continue
            if layout.type == types[part] and layout.record_id is not None:
                current.setdefault(layout.record_id, message(name))
            elif part != "framed" and layout.type == "data" and name.endswith("Key"):
                # schemas before 4.0: the version of the key is the type
                which = name if part == "key" else f"{name.removesuffix('Key')}Value"
                older.setdefault(layout.versions.lowest, message(which))
    return older | current
