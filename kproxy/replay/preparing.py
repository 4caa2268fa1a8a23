"""Prepare the cluster: create topics that requests need, get producer ids for those assigned before the capture, shift offsets.

Offsets: say a capture appends records from offset 900 on, and the log of the new cluster ends at 20. What had offset 905 then
gets offset 25, so a Fetch or an OffsetCommit of 905 is sent as one of 25. Offsets of partitions to which the capture appends
nothing stay.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types
from kproxy.replay.cluster import LinkClosed
from kproxy.replay.comparing import NOT_READY, error_name
from kproxy.replay.identities import Identities, Producer
from kproxy.replay.plan import Plan
from kproxy.replay.recording import Recorded, Recording
from kproxy.replay.versions import Unsendable

RETRY_S = 0.2
TRANSACTIONS = 1  # key type of FindCoordinator
MOST_NAMED = 10  # topics in an error
TIMEOUT_MS = 60_000
CLIENT, LATEST = -1, -1  # no replica; the timestamp that stands for the end
MOST = 100_000  # partitions
Partition = tuple[str, int]  # topic, number


async def prepare(plan: Plan, identities: Identities) -> None:
    """Create missing topics if the plan says so, and get producer ids; learn the new cluster's ids of both.

    Raises UpstreamError with what the cluster refused.
    """
    try:
        if plan.create_topics and plan.missing_topics:
            await _create_topics(plan)
        learn_topic_ids(plan, identities)
        await learn_shifts(plan, identities)
        for producer_id, epoch in plan.foreign_producers.items():
            new = await _new_producer(plan, plan.needs.transactional.get(producer_id))
            identities.note_producer(Producer(producer_id, epoch), new)
    except (LinkClosed, DecodeError, Unsendable) as error:
        raise UpstreamError(f"before the first request: {error}") from error
    except TimeoutError:
        raise UpstreamError(
            f"before the first request: the cluster was not ready in {plan.cluster.patience:g} s"
        ) from None


def learn_topic_ids(plan: Plan, identities: Identities) -> None:
    for topic_id, name in plan.recording.names.items():
        topic = plan.cluster.topics.get(name)
        if topic is not None:
            identities.uuids[topic_id] = topic.topic_id


async def _create_topics(plan: Plan) -> None:
    cluster = plan.cluster
    if cluster.versions is None:
        names = ", ".join(list(plan.missing_topics)[:MOST_NAMED])
        raise UpstreamError(
            f"this cluster has no CreateTopics (Kafka before 0.10.1): create {names} with its own tools"
        )
    version = cluster.version(ApiKey.CREATE_TOPICS, 4)
    types = struct_types("CreateTopicsRequest")
    body: Any = types["CreateTopicsRequest"](timeout_ms=TIMEOUT_MS)
    wanted = plan.missing_topics
    for name, partitions in wanted.items():
        topic: Any = types["CreatableTopic"](name=name, num_partitions=partitions, replication_factor=1)
        placed = leaders_of(plan, name, partitions)
        if placed is not None:
            topic.num_partitions = topic.replication_factor = -1  # as the assignments say
            topic.assignments = [
                types["CreatableReplicaAssignment"](partition_index=number, broker_ids=[node])
                for number, node in enumerate(placed)
            ]
        body.topics.append(topic)
    # Any broker forwards to the controller (KIP-590), but not before 3.0: then the first node has to be the controller
    answer = await cluster.ask(None, ApiKey.CREATE_TOPICS, version, body)
    for topic in answer.topics:
        if topic.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise UpstreamError(f"topic {topic.name} was not created: {error_name(topic.error_code)}")
    try:
        async with asyncio.timeout(cluster.patience):
            await _until_led(plan, wanted)
    except TimeoutError:
        names = ", ".join([name for name in wanted if name not in cluster.topics][:MOST_NAMED])
        why = f"{names}: not in Metadata; may the login describe it?" if names else "leaders are not ready"
        raise UpstreamError(f"{cluster.patience:g} s after topics were created: {why}") from None


async def _until_led(plan: Plan, wanted: Mapping[str, int]) -> None:
    """Wait until the cluster has the topics and their leaders lead, which brokers learn a little later."""
    while True:
        topics = plan.cluster.topics
        are_there = all(name in topics and len(topics[name].leaders) >= count for name, count in wanted.items())
        if are_there and await _are_led(plan, wanted):
            return
        await asyncio.sleep(RETRY_S)
        await plan.cluster.learn_topics()


async def _are_led(plan: Plan, names: Iterable[str]) -> bool:
    """Return whether the leaders of these topics know that they lead: metadata names them a little earlier."""
    partitions = [(name, number) for name in names for number in plan.cluster.topics[name].leaders]
    for node, led in by_leader(plan, partitions).items():
        if any(error for error, _ in (await ask_ends(plan, node, led)).values()):
            return False
    return True


def leaders_of(plan: Plan, name: str, partitions: int) -> list[int] | None:
    """Return for each partition the node that stands for its recorded leader, so that requests find it; None: any node."""
    if len(plan.cluster.nodes) < 2:
        return None
    recorded = (plan.recording.leaders.get((name, number)) for number in range(partitions))
    nodes = [None if node is None else plan.nodes.get(node) for node in recorded]
    return None if None in nodes else [node for node in nodes if node is not None]


async def _new_producer(plan: Plan, transactional_id: str | None) -> Producer:
    version = plan.cluster.version(ApiKey.INIT_PRODUCER_ID, 4)
    body: Any = struct_types("InitProducerIdRequest")["InitProducerIdRequest"](
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    async with asyncio.timeout(plan.cluster.patience):
        while True:
            node = None if transactional_id is None else await _coordinator(plan, transactional_id)
            answer = await plan.cluster.ask(node, ApiKey.INIT_PRODUCER_ID, version, body)
            if answer.error_code == 0:
                return Producer(answer.producer_id, answer.producer_epoch)
            if answer.error_code not in NOT_READY:
                raise UpstreamError(f"no producer id: {error_name(answer.error_code)}")
            await asyncio.sleep(RETRY_S)


async def _coordinator(plan: Plan, transactional_id: str) -> int | None:
    answer = await plan.cluster.find_coordinator(TRANSACTIONS, transactional_id)
    return answer.node_id if answer.error_code == 0 else None


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
    answer = await plan.cluster.ask(node, ApiKey.LIST_OFFSETS, version, body)
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
