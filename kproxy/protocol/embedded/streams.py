"""Decode the user data of Kafka Streams in the consumer protocol: SubscriptionInfo and AssignmentInfo, versions 1 to 11.

Java reads them with hand-written code (SubscriptionInfoData.json describes the first; for the second see AssignmentInfo.decode,
ConsumerProtocolUtils.readTaskIdFrom). Both begin with an INT32 version. Unlike in the consumer protocol, versions newer than 11
cannot be read; Streams itself then requests a rebalance with an older one (KIP-268). *texts*: see Reader.
"""

from collections.abc import Callable
from typing import Any

from kproxy.protocol.embedded.reader import Reader, Texts

NEWEST = 11
TASK = 4 + 4  # bytes of a task without a named topology
NAMED_TOPOLOGIES = 10  # the version from which tasks carry the name of their topology (KIP-809)


def open_subscription_info(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode a SubscriptionInfo: an instance and its tasks, in SubscriptionInfoData.json's order; bytes as hex.

    Raises DecodeError.
    """
    reader = Reader("Streams SubscriptionInfo", data, texts=texts)
    version = _read_version(reader)
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
        opened["clientTags"] = reader.array(4 + 4, lambda: _client_tag(reader))
    reader.end()
    return opened


def open_assignment_info(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode an AssignmentInfo: the tasks of an instance, the hosts of all partitions, in wire order. Raises DecodeError."""
    reader = Reader("Streams AssignmentInfo", data, texts=texts)
    version = _read_version(reader)
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


def _read_version(reader: Reader) -> int:
    version = reader.int32()
    if not 1 <= version <= NEWEST:
        raise reader.malformed(f"version {version} is none of 1 to {NEWEST}")
    return version


def _group_task(reader: Reader) -> dict[str, int]:
    return {"topicGroupId": reader.int32(), "partition": reader.int32()}


def _offset_sums(reader: Reader, version: int) -> list[dict[str, Any]]:
    if version < NAMED_TOPOLOGIES:
        return reader.array(4 + 4, lambda: _group_sums(reader))
    return reader.array(TASK + 8 + 2, lambda: _task_sum(reader))


def _group_sums(reader: Reader) -> dict[str, Any]:
    """Read a subtopology with its partitions (versions 7 to 9)."""
    group = reader.int32()
    sums = reader.array(4 + 8, lambda: {"partition": reader.int32(), "offsetSum": reader.int64()})
    return {"topicGroupId": group, "partitionToOffsetSum": sums}


def _task_sum(reader: Reader) -> dict[str, Any]:
    return _group_task(reader) | {"offsetSum": reader.int64(), "namedTopology": reader.string()}


def _client_tag(reader: Reader) -> dict[str, str]:
    return {"key": reader.text_bytes().hex(), "value": reader.text_bytes().hex()}


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
