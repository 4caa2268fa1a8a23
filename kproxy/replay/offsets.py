"""Offsets: what to add to recorded offsets, as logs of the new cluster may end at other ones.

Say a capture appends records from offset 900 on, and the log of the new cluster ends at 20. What had offset 905 then gets offset
25, so a Fetch or an OffsetCommit of 905 is sent as one of 25. Offsets of partitions to which the capture appends nothing stay.
"""

from collections.abc import Iterable
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.identities import Identities
from kproxy.replay.plan import Plan
from kproxy.replay.recording import Recorded, Recording

CLIENT, LATEST = -1, -1  # no replica; the timestamp that stands for the end
MOST = 100_000  # partitions
Partition = tuple[str, int]  # topic, number


def first_appended(recording: Recording, sent: list[Recorded]) -> dict[Partition, int]:
    """Return the offset of the first record that requests append, by topic and partition, as the recorded brokers answered."""
    offsets: dict[Partition, int] = {}
    for one in sent:
        answer = one.answer() if one.api_key == ApiKey.PRODUCE else None
        for topic in answer.responses if answer is not None else ():
            name = topic.name or recording.names.get(topic.topic_id, "")
            for partition in topic.partition_responses:
                if partition.base_offset >= 0 and name and len(offsets) < MOST:
                    offsets.setdefault((name, partition.index), partition.base_offset)
    return offsets


async def learn_shifts(plan: Plan, identities: Identities) -> None:
    """Ask where the logs end that requests append to. Topics that the requests themselves create are empty.

    Raises LinkClosed, DecodeError, UpstreamError.
    """
    first = {key: offset for key, offset in first_appended(plan.recording, plan.sent).items() if _is_there(plan, key)}
    for node, partitions in by_leader(plan, first).items():
        for key, (error, end) in (await ask_ends(plan, node, partitions)).items():
            if not error and end >= 0 and key in first:
                identities.shifts[key] = end - first[key]


def by_leader(plan: Plan, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    """Group partitions of topics that the new cluster has by the node that leads them there."""
    partitions_of: dict[int, list[Partition]] = {}
    for topic, number in partitions:
        partitions_of.setdefault(plan.cluster.topics[topic].leaders[number], []).append((topic, number))
    return partitions_of


async def ask_ends(plan: Plan, node: int, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
    """Return error code and end of the log for partitions that a node leads. Raises LinkClosed, DecodeError, UpstreamError."""
    version = 0 if plan.cluster.versions is None else plan.cluster.version(ApiKey.LIST_OFFSETS, 1)
    types = struct_types("ListOffsetsRequest")
    topics: dict[str, Any] = {}
    for name, number in partitions:
        topic = topics.setdefault(name, types["ListOffsetsTopic"](name=name))
        topic.partitions.append(
            types["ListOffsetsPartition"](partition_index=number, timestamp=LATEST, max_num_offsets=1)
        )
    body = types["ListOffsetsRequest"](replica_id=CLIENT, topics=list(topics.values()))
    link = await plan.cluster.open(node)
    try:
        answer = await link.ask(ApiKey.LIST_OFFSETS, version, body)
    finally:
        link.abort("asked")
    return {
        (topic.name, one.partition_index): (one.error_code, _end(one))
        for topic in answer.topics
        for one in topic.partitions
    }


def _end(partition: Any) -> int:
    return int(next(iter(partition.old_style_offsets), partition.offset))  # version 0 has old_style_offsets


def _is_there(plan: Plan, key: Partition) -> bool:
    topic = plan.cluster.topics.get(key[0])
    return topic is not None and key[1] in topic.leaders and key[0] not in plan.needs.created
