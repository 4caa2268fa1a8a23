"""Prepare the cluster: create topics that requests need, and get producer ids for those assigned before the capture."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.protocol.structs import struct_types
from kproxy.replay.identities import Identities
from kproxy.replay.link import Link, LinkClosed
from kproxy.replay.offsets import ask_ends, by_leader, learn_shifts
from kproxy.replay.plan import Plan
from kproxy.replay.producer_ids import Producer
from kproxy.replay.versions import Unsendable

RETRY_S = 0.2
NOT_READY = (
    *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
    *(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.LEADER_NOT_AVAILABLE),
)
TRANSACTIONS = 1  # key type of FindCoordinator
MOST_NAMED = 10  # topics in an error
TIMEOUT_MS = 60_000


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
    """Learn the new ids of topics: those with the same name are the same."""
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
    async with _link_to_controller(plan) as link:
        answer = await link.ask(ApiKey.CREATE_TOPICS, version, body)
    for topic in answer.topics:
        if topic.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise UpstreamError(f"topic {topic.name} was not created: {_name(topic.error_code)}")
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
            async with _link_to_coordinator(plan, transactional_id) as link:
                answer = await link.ask(ApiKey.INIT_PRODUCER_ID, version, body)
            if answer.error_code == 0:
                return Producer(answer.producer_id, answer.producer_epoch)
            if answer.error_code not in NOT_READY:
                raise UpstreamError(f"no producer id: {_name(answer.error_code)}")
            await asyncio.sleep(RETRY_S)


@asynccontextmanager
async def _link(plan: Plan, node: int | None) -> AsyncIterator[Link]:
    link = await plan.cluster.open(node)
    try:
        yield link
    finally:
        link.abort("done")


def _link_to_controller(plan: Plan) -> Any:
    """Connect to a node that creates topics: any broker, which forwards to the controller (KIP-590), but not before 3.0.

    Before 3.0 the first node has to be the controller: if it is not, trying again would not help.
    """
    return _link(plan, None)


@asynccontextmanager
async def _link_to_coordinator(plan: Plan, transactional_id: str | None) -> AsyncIterator[Link]:
    """Connect to the coordinator of a transactional id; to any broker without one."""
    if transactional_id is None:
        async with _link(plan, None) as link:
            yield link
        return
    version = min(plan.cluster.version(ApiKey.FIND_COORDINATOR, 3), 3)
    body: Any = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](
        key=transactional_id, key_type=TRANSACTIONS
    )
    async with _link(plan, None) as link:
        answer = await link.ask(ApiKey.FIND_COORDINATOR, version, body)
    async with _link(plan, answer.node_id if answer.error_code == 0 else None) as link:
        yield link


def _name(code: int) -> str:
    known = error_codes().get(code)
    return known.name if known is not None else f"error {code}"
