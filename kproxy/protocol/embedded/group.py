"""Decode member metadata and assignments of classic groups, by the group's protocol type; unknown types stay bytes.

The consumer protocol: INT16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment at that version. Newer
versions are read as the newest known one, and the bytes behind it are ignored (ConsumerProtocol.deserializeSubscription). A
payload too short for its version is read as the version whose fields it has. Its user data depends on the assignor:

    sticky assignors   a member's previous assignment, a Struct of the protocol's old types (StickyAssignor,
                       CooperativeStickyAssignor)
    Kafka Streams      SubscriptionInfo and AssignmentInfo, which Java reads with hand-written code (SubscriptionInfoData.json
                       describes the first; for the second see AssignmentInfo.decode, ConsumerProtocolUtils.readTaskIdFrom). Both
                       begin with an INT32 version, 1 to 11. Newer ones cannot be read; Streams itself then requests a rebalance
                       with an older one (KIP-268)

Kafka Connect's protocols default (version 0), compatible (1) and sessioned (2): INT16 version, then a Struct of the protocol's
old types that no schema file has (ConnectProtocol, IncrementalCooperativeConnectProtocol, KIP-415). From version 1 on a worker's
metadata holds the assignment it has.

If the type is not in the message (SyncGroup before version 5), the bytes decide: if they are exactly a consumer assignment, they
are decoded as one. *texts*: see Reader.
"""

import contextlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.payload import Opening
from kproxy.protocol.embedded.reader import Reader, Texts
from kproxy.protocol.message import Message, message
from kproxy.protocol.structs import MessageStruct


def add_metadata(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """Decode a member's metadata and add it to *opening*; adds nothing for empty bytes and unknown protocol types."""
    if not data:
        return
    if protocol_type == CONSUMER:
        read = _open_known_subscription if len(data) <= LONGEST_KNOWN else open_consumer_subscription
        opening.add(path, "consumer-subscription", read, data, protocol)
    elif protocol_type == CONNECT:
        opening.add(path, "connect-metadata", open_connect_metadata, data, protocol)


def add_assignment(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """As add_metadata, for a member's assignment; it is empty for members without one."""
    if not data:
        return
    if protocol_type == CONNECT:
        opening.add(path, "connect-assignment", open_connect_assignment, data)
    elif protocol_type == CONSUMER or (protocol_type is None and is_consumer_assignment(data)):
        opening.add(path, "consumer-assignment", open_consumer_assignment, data, protocol)


TOPIC = 2 + 4  # bytes of a topic with an empty name and no partitions


def open_sticky_user_data(data: bytes) -> dict[str, Any]:
    """Decode to ``previousAssignment`` (topic -> partitions), and ``generation`` if present. Raises DecodeError."""
    reader = Reader("StickyAssignor user data", data)
    topics = reader.array(TOPIC, lambda: (reader.string() or "", reader.int32s()))
    opened: dict[str, Any] = {"previousAssignment": dict(topics)}
    if reader.left >= 4:
        opened["generation"] = reader.int32()
    return opened


def open_cooperative_user_data(data: bytes) -> dict[str, Any]:
    """Decode to ``generation``. Raises DecodeError."""
    return {"generation": Reader("CooperativeStickyAssignor user data", data).int32()}


NEWEST_STREAMS = 11
TASK = 4 + 4  # bytes of a task without a named topology
NAMED_TOPOLOGIES = 10  # the version from which tasks carry the name of their topology (KIP-809)


def open_subscription_info(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode a SubscriptionInfo: an instance and its tasks, in SubscriptionInfoData.json's order; bytes as hex.

    Raises DecodeError.
    """
    reader = Reader("Streams SubscriptionInfo", data, texts=texts)
    version = _streams_version(reader)
    opened: dict[str, Any] = {"version": version}
    if version >= 3:
        opened["latestSupportedVersion"] = reader.int32()
    opened["processId"] = reader.uuid()
    if version <= 6:
        opened["prevTasks"] = reader.array(TASK, lambda: _group_task(reader))
        opened["standbyTasks"] = reader.array(TASK, lambda: _group_task(reader))
    if version >= 2:
        opened["userEndPoint"] = reader.text_bytes().hex()
    if version >= 7:
        opened["taskOffsetSums"] = _offset_sums(reader, version)
    if version >= 8:
        opened["uniqueField"] = reader.int8()
    if version >= 9:
        opened["errorCode"] = reader.int32()
    if version >= 11:
        opened["clientTags"] = reader.array(
            4 + 4, lambda: {"key": reader.text_bytes().hex(), "value": reader.text_bytes().hex()}
        )
    reader.end()
    return opened


def open_assignment_info(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode an AssignmentInfo: the tasks of an instance, the hosts of all partitions, in wire order. Raises DecodeError."""
    reader = Reader("Streams AssignmentInfo", data, texts=texts)
    version = _streams_version(reader)
    opened: dict[str, Any] = {"version": version}
    if version >= 3:
        opened["latestSupportedVersion"] = reader.int32()
    opened["activeTasks"] = reader.array(TASK, lambda: _task(reader, version))
    opened["standbyTasks"] = reader.array(TASK + 4, lambda: _standby_task(reader, version))
    if version >= 2:
        _read_hosts(reader, version, opened)
    if version >= 4:
        opened["errorCode"] = reader.int32()
    if version == 4 and opened["errorCode"] == 0:
        del opened["errorCode"]  # on the wire since version 4, used by Java since version 5
    if version >= 7:
        opened["nextRebalanceMs"] = reader.int64()
    reader.end()
    return opened


def _streams_version(reader: Reader) -> int:
    version = reader.int32()
    if not 1 <= version <= NEWEST_STREAMS:
        raise reader.malformed(f"version {version} is none of 1 to {NEWEST_STREAMS}")
    return version


def _group_task(reader: Reader) -> dict[str, int]:
    return {"topicGroupId": reader.int32(), "partition": reader.int32()}


def _offset_sums(reader: Reader, version: int) -> list[dict[str, Any]]:
    if version < NAMED_TOPOLOGIES:
        return reader.array(4 + 4, lambda: _group_sums(reader))
    return reader.array(
        TASK + 8 + 2,
        lambda: _group_task(reader) | {"offsetSum": reader.int64(), "namedTopology": reader.string()},
    )


def _group_sums(reader: Reader) -> dict[str, Any]:
    """Read a subtopology with its partitions (versions 7 to 9)."""
    group = reader.int32()
    sums = reader.array(4 + 8, lambda: {"partition": reader.int32(), "offsetSum": reader.int64()})
    return {"topicGroupId": group, "partitionToOffsetSum": sums}


def _task(reader: Reader, version: int) -> dict[str, Any]:
    task: dict[str, Any] = {"subtopology": reader.int32(), "partition": reader.int32()}
    name = reader.java_chars() if version >= NAMED_TOPOLOGIES else ""
    return task | {"namedTopology": name} if name else task


def _standby_task(reader: Reader, version: int) -> dict[str, Any]:
    task = _task(reader, version)
    return {"task": task, "partitions": _partitions(reader, reader.java_utf, 2)}


def _read_hosts(reader: Reader, version: int, opened: dict[str, Any]) -> None:
    """Read the partitions of each host; from version 5 on topics are indexes of a table before them (KIP-441)."""
    topic: Callable[[], str] = reader.java_utf
    smallest = 2
    if version >= 5:
        names = dict(reader.array(4 + 2, lambda: (reader.int32(), reader.java_utf())))
        topic, smallest = lambda: _numbered(reader, names), 4
    opened["partitionsByHost"] = reader.array(2 + 4 + 4, lambda: _host(reader, topic, smallest))
    if version >= 6:
        opened["standbyPartitionsByHost"] = reader.array(2 + 4 + 4, lambda: _host(reader, topic, smallest))


def _numbered(reader: Reader, names: dict[int, str]) -> str:
    number = reader.int32()
    if number not in names:
        raise reader.malformed(f"topic number {number} is not in the table of {len(names)} topics")
    return reader.repeated(names[number])


def _host(reader: Reader, topic: Callable[[], str], smallest: int) -> dict[str, Any]:
    host, port = reader.java_utf(), reader.int32()
    return {"host": host, "port": port, "partitions": _partitions(reader, topic, smallest)}


def _partitions(reader: Reader, topic: Callable[[], str], smallest: int) -> dict[str, list[int]]:
    """Read pairs of topic and partition; return topic -> partitions."""
    by_topic: dict[str, list[int]] = {}
    for _ in range(reader.count(smallest + 4)):
        by_topic.setdefault(topic(), []).append(reader.int32())
    return by_topic


CONSUMER = "consumer"

# Kafka Streams is a consumer group whose one assignor is called "stream" (StreamsPartitionAssignor.name).
SUBSCRIPTION_USER_DATA: dict[str, Callable[[bytes], Any]] = {
    "sticky": open_sticky_user_data,
    "cooperative-sticky": open_cooperative_user_data,
    "stream": open_subscription_info,
}
ASSIGNMENT_USER_DATA: dict[str, Callable[[bytes], Any]] = {"stream": open_assignment_info}


def open_consumer_subscription(data: bytes, assignor: str | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``assignor``, ``value``, and ``userData``: the decoded value.userData, null if there is none.

    Without an assignor, only version and value. ``readAs`` appears if another version's layout was used, ``extraBytes`` if
    bytes follow; ``userDataError`` says why user data could not be decoded. Raises DecodeError.
    """
    read = SUBSCRIPTION_USER_DATA.get(assignor or "")
    opened, user_data = _open(message("ConsumerProtocolSubscription"), data, read)
    if assignor is None:
        return opened
    named = {"version": opened.pop("version"), "assignor": assignor, "value": opened.pop("value")}
    return named | user_data | opened


LONGEST_KNOWN = 1024  # bytes
_open_known_subscription = lru_cache(maxsize=1024)(open_consumer_subscription)  # many members of a group send the same


def open_consumer_assignment(data: bytes, assignor: str | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``value``, and ``userData`` if the assignor's user data is known. Raises DecodeError."""
    read = ASSIGNMENT_USER_DATA.get(assignor or "")
    opened, user_data = _open(message("ConsumerProtocolAssignment"), data, read)
    return opened if read is None else opened | user_data


def read_subscription(data: bytes) -> MessageStruct:
    """Decode a ConsumerProtocolSubscription to an object. Raises DecodeError."""
    return _read(message("ConsumerProtocolSubscription"), data, whole=False)


def read_assignment(data: bytes, *, whole: bool = False) -> MessageStruct:
    """Decode a ConsumerProtocolAssignment to an object; *whole* demands a known version and no bytes behind it.

    Raises DecodeError.
    """
    return _read(message("ConsumerProtocolAssignment"), data, whole=whole)


def is_consumer_assignment(data: bytes) -> bool:
    """Return whether the bytes are exactly a consumer protocol assignment of a known version."""
    try:
        opened, _ = _open(message("ConsumerProtocolAssignment"), data, None)
    except DecodeError:
        return False
    return "readAs" not in opened and "extraBytes" not in opened


def _read(layout: Message, data: bytes, *, whole: bool) -> MessageStruct:
    reader, version = _begin(layout, data)
    known, end = _fit(layout, version, data, reader.position)
    if whole and (known != version or end != len(data)):
        raise reader.malformed(f"it is not version {version} to its last byte")
    return layout.decode(known, data[:end], reader.position)


def _begin(layout: Message, data: bytes) -> tuple[Reader, int]:
    """Return a reader positioned behind the version, and the version. Raises DecodeError."""
    reader = Reader(layout.name, data)
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version} is below 0")
    return reader, version


def _open(layout: Message, data: bytes, read: Callable[[bytes], Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decode a payload; *read* decodes its user data."""
    reader, version = _begin(layout, data)
    known, end = _fit(layout, version, data, reader.position)
    opened: dict[str, Any] = {
        "version": version,
        "value": msgspec.Raw(layout.to_json(known, data[:end], reader.position)),
    }
    if known != version:
        opened["readAs"] = known
    if end != len(data):
        opened["extraBytes"] = len(data) - end
    if read is None:
        return opened, {"userData": None}
    value: Any = layout.decode(known, data[:end], reader.position)
    return opened, _user_data(read, value.user_data)


def _fit(layout: Message, version: int, data: bytes, start: int) -> tuple[int, int]:
    """Return the version whose layout fits the payload, and where it ends. Raises DecodeError."""
    known = min(version, layout.versions.highest)
    try:
        return known, start + layout.walk(known, data, start)
    except DecodeError:
        # kafka-go writes version 1 without the fields that version 1 added (groupMetadata.writeTo)
        for lower in range(known - 1, -1, -1):
            with contextlib.suppress(DecodeError):
                if start + layout.walk(lower, data, start) == len(data):
                    return lower, len(data)
        raise


def _user_data(read: Callable[[bytes], Any], data: bytes | None) -> dict[str, Any]:
    if not data:
        return {"userData": None}
    try:
        return {"userData": read(data)}
    except DecodeError as error:
        return {"userData": None, "userDataError": str(error)}


CONNECT = "connect"
NEWEST_CONNECT = 2
CONNECTOR_TASK = -1  # the task number of the connector itself
CONNECTOR = 2 + 4  # bytes of a connector with an empty name and no tasks


def open_connect_metadata(data: bytes, protocol: str | None, texts: Texts | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``protocol``, ``value``: url, configOffset, assignment. *texts*: see Reader. Raises DecodeError."""
    reader = Reader("Connect metadata", data, texts=texts)
    version = _connect_version(reader)
    value: dict[str, Any] = {"url": reader.string(), "configOffset": reader.int64()}
    if version >= 1:
        assignment = reader.nullable_bytes()
        value["assignment"] = _nested_assignment(reader, len(assignment)) if assignment else None
    _end_connect(reader)
    return {"version": version, "protocol": protocol, "value": value}


def open_connect_assignment(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``value``: error, leader, leaderUrl, configOffset, assigned, revoked, scheduledDelay.

    Assigned and revoked are ``connectors`` and ``tasks``. *texts*: see Reader. Raises DecodeError.
    """
    return _connect_assignment(Reader("Connect assignment", data, texts=texts))


def _connect_assignment(reader: Reader) -> dict[str, Any]:
    version = _connect_version(reader)
    value: dict[str, Any] = {
        "error": reader.int16(),
        "leader": reader.string(),
        "leaderUrl": reader.string(),
        "configOffset": reader.int64(),
        "assigned": _connectors(reader),
    }
    if version >= 1:
        value |= {"revoked": _connectors(reader), "scheduledDelay": reader.int32()}
    _end_connect(reader)
    return {"version": version, "value": value}


def _nested_assignment(metadata: Reader, size: int) -> dict[str, Any]:
    """Decode the assignment in the *size* bytes that *metadata* has just read."""
    start = metadata.position - size
    opened = _connect_assignment(
        Reader("Connect assignment", metadata.data[: metadata.position], start, metadata.texts)
    )
    value: dict[str, Any] = opened["value"]
    return {"version": opened["version"]} | value


def _end_connect(reader: Reader) -> None:
    """Check the end: bytes of a newer version may follow, unless all texts must be noted; then there must be a text."""
    if reader.texts is not None:
        reader.end()
        if not reader.texts:
            raise reader.malformed("no text, where a worker's URL or id is expected")


def _connect_version(reader: Reader) -> int:
    """Read the version; newer ones are read as the newest known, as Kafka refuses only those below 0 (ConnectProtocol)."""
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version} is below 0")
    if version > NEWEST_CONNECT and reader.texts is not None:
        raise reader.malformed(f"version {version} is not known, so its texts are not")
    return version


def _connectors(reader: Reader) -> dict[str, list[Any]]:
    connectors: list[Any] = []
    tasks: list[Any] = []
    for _ in range(reader.count(CONNECTOR)):
        name = reader.string() or ""
        for task in reader.int32s():
            if task == CONNECTOR_TASK:
                connectors.append(name)
            else:
                tasks.append({"connector": reader.repeated(name), "task": task})
    return {"connectors": connectors, "tasks": tasks}
