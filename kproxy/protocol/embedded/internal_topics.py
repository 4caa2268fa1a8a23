"""Decode the keys and values of records in Kafka's internal topics.

    __consumer_offsets, __transaction_state, __share_group_state
        key     INT16 type of the record, then the key's message (before 4.0 this was the version of the key)
        value   INT16 version, then the value's message; null: the key is deleted (a tombstone)
    __cluster_metadata, __remote_log_metadata
        value   uvarint frame version 1, uvarint type, uvarint version, then the message (AbstractApiMessageSerde)

The facts map a type to its message (apiKey in the schemas). Batches and control records are in kproxy.protocol.records.
"""

import functools
from typing import Any

import msgspec

from kproxy.errors import DecodeError, Malformed, UnknownVersion
from kproxy.protocol.embedded import group
from kproxy.protocol.embedded.payload import Context, Opening
from kproxy.protocol.embedded.reader import Reader
from kproxy.protocol.facts import facts
from kproxy.protocol.ids import METADATA_TOPIC
from kproxy.protocol.message import Message, message

FRAME_VERSION = 1  # 0 was the 2.8 preview's, with different records
COORDINATORS = {
    "__consumer_offsets": "kafka-group-coordinator",
    "__transaction_state": "kafka-transaction-coordinator",
    "__share_group_state": "kafka-share-coordinator",
}
LOGS = {METADATA_TOPIC: "kafka-metadata", "__remote_log_metadata": "kafka-storage"}
INTERNAL_TOPICS = frozenset(COORDINATORS) | frozenset(LOGS)


def open_record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode to ``key`` and ``value``, each ``message``, ``version``, ``value``, or null if the record has none.

    Group metadata also has ``embedded``: the payloads of its members, with paths into the record. An unreadable key or value
    becomes ``{"error": why}``. Raises KeyError for a topic that is not internal.
    """
    if topic in LOGS:
        return {"key": _open(_refused_key, key), "value": _open(_framed, value, LOGS[topic])}
    module = COORDINATORS[topic]
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
