"""Send a request to the right node (``Router``), on a connection that stands for the recorded one (``Connections``).

a cluster of one node                       that node, at the address that was given
a group, a transactional id                 its coordinator, which is looked up once
Produce, Fetch and others for leaders       the leader, if all partitions of the request have the same one
all others, and where that is not known     the node that stands for the recorded connection's broker

Each recorded connection has one connection to each node that its requests go to. It is opened at the first request and closed
after the last. If it breaks, the next request opens it again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.structs import struct_types
from kproxy.replay.cluster import Cluster, Link, LinkClosed, is_answered
from kproxy.replay.learned import Ready
from kproxy.replay.plan import Plan
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.result import Result

GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator
OF_TRANSACTIONS = frozenset(
    {
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN),
        ApiKey.DESCRIBE_TRANSACTIONS,
    }
)
OF_LEADERS = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS),
        *(ApiKey.DESCRIBE_PRODUCERS, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    }
)
OF_ANY = frozenset({ApiKey.FIND_COORDINATOR, ApiKey.METADATA, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS})
FULL = 0  # session epoch of a Fetch that names all partitions
MOST = 100_000
Key = tuple[int, str]  # key type, group or transactional id


class Router:
    """Routes the requests of one replay. *name*: topic id of the new cluster -> topic."""

    def __init__(self, plan: Plan, name: Callable[[str], str]) -> None:
        self._plan = plan
        self._name = name
        self._coordinators: dict[Key, int] = {}
        self._fetching: dict[ConnectionId, int | None] = {}  # the node that has a connection's fetch session

    async def node(self, recorded: Recorded, body: Any) -> int | None:
        """Return where to send a request whose ids were replaced; None: the address that was given."""
        default = self._plan.node(recorded)
        if len(self._plan.cluster.nodes) < 2 or recorded.api_key in OF_ANY:
            return default
        key = coordinator_key(recorded.api_key, body)
        if key is not None:
            return await self._coordinator(key, default)
        if recorded.api_key not in OF_LEADERS:
            return default
        if recorded.api_key == ApiKey.FETCH and body.session_epoch != FULL and recorded.connection in self._fetching:
            return self._fetching[recorded.connection]
        node = self._leader(body, default)
        if recorded.api_key == ApiKey.FETCH and len(self._fetching) < MOST:
            self._fetching[recorded.connection] = node
        return node

    async def renew(self, api_key: int, body: Any) -> None:
        """Look up leaders and coordinators again, after a node answered that it is not the one.

        This is done for a single node too: brokers create the topic in which coordinators keep their state at the first look-up.
        """
        self._coordinators.clear()
        if len(self._plan.cluster.nodes) > 1:
            await self._plan.cluster.learn_topics()
        key = coordinator_key(api_key, body)
        if key is not None:
            await self._coordinator(key, None)

    def _leader(self, body: Any, default: int | None) -> int | None:
        topics = self._plan.cluster.topics
        leaders = set()
        for topic, partition in partitions(body):
            known = topics.get(self._name(topic))
            leaders.add(known.leaders.get(partition) if known is not None else None)
        leader = leaders.pop() if len(leaders) == 1 else None
        return default if leader is None else leader

    async def _coordinator(self, key: Key, default: int | None) -> int | None:
        known = self._coordinators.get(key)
        if known is not None:
            return known
        try:
            answer = await self._plan.cluster.find_coordinator(*key)
        except (UpstreamError, LinkClosed, DecodeError):
            return default
        if answer.error_code or answer.node_id not in self._plan.cluster.nodes:
            return default  # it may not be ready: the request is sent again
        if len(self._coordinators) < MOST:
            self._coordinators[key] = answer.node_id
        return int(answer.node_id)


def coordinator_key(api_key: int, body: Any) -> Key | None:
    """Return the group or transactional id whose coordinator handles a request, the first of several; None if there is none."""
    if api_key in OF_LEADERS or api_key in OF_ANY:
        return None
    kind, entity = (TRANSACTION, "transactionalId") if api_key in OF_TRANSACTIONS else (GROUP, "groupId")
    name = _first(body, entity)
    return None if name is None else (kind, name)


def partitions(struct: Any, topic: str = "") -> Iterator[tuple[str, int]]:
    """Yield topic (by name or id) and partition for each element of a request that names a partition."""
    by_attribute = struct.by_attribute
    for attribute in ("topic", "name", "topic_id"):
        if attribute in by_attribute and (by_attribute[attribute].entity == "topicName" or attribute == "topic_id"):
            value = getattr(struct, attribute)
            if value not in ("", None, ZERO_UUID):
                topic = value
                break
    number = next((a for a in ("partition_index", "partition", "index") if a in by_attribute), None)
    if topic and number is not None and by_attribute[number].type == "int32":
        yield topic, getattr(struct, number)
    for one in struct.fields:
        if one.is_struct and one.is_array:
            for inner in getattr(struct, one.attribute) or ():
                yield from partitions(inner, topic)


def _first(struct: Any, entity: str) -> str | None:
    """Return the first value of a field of that entity type, outermost fields first."""
    for one in struct.fields:
        value = getattr(struct, one.attribute)
        if one.entity == entity and value:
            return str(value[0] if one.is_array else value)
    for one in struct.fields:
        if one.is_struct:
            value = getattr(struct, one.attribute)
            for inner in (value or ()) if one.is_array else (value,):
                value_below = None if inner is None else _first(inner, entity)
                if value_below is not None:
                    return value_below
    return None


@dataclass(eq=False, slots=True)
class Way:
    """The link from one recorded connection to one node of the new cluster."""

    node: int | None = None
    link: Link | None = None
    unconfirmed: bool = False  # a request without an answer was sent, which may not have been processed yet

    def abort(self, why: str) -> None:
        """Close its link at once, if there is one."""
        if self.link is not None:
            self.link.abort(why)


class Connections:
    """The connections of one replay; ``close`` them in the end.

    Args:
        cluster, router: where requests go.
        requests: all that will be sent.
        result: counts the connections that are opened.
    """

    def __init__(self, cluster: Cluster, router: Router, requests: Iterable[Recorded], result: Result) -> None:
        self._cluster = cluster
        self._router = router
        self._result = result
        self._ways: dict[ConnectionId, dict[int | None, Way]] = {}
        self._unconfirmed: dict[ConnectionId, list[Way]] = {}
        self._left = Counter(one.connection for one in requests)  # requests that are still to be sent

    def take(self, recorded: Recorded) -> None:
        """Note that a request is about to be sent, so that its connection is closed after the last one."""
        self._left[recorded.connection] -= 1

    async def way(self, recorded: Recorded, body: Any) -> Way:
        """Return where to send a request whose ids were replaced. Raises UpstreamError."""
        node = await self._router.node(recorded, body)
        return self._ways.setdefault(recorded.connection, {}).setdefault(node, Way(node))

    async def send(self, way: Way, recorded: Recorded, ready: Ready) -> "asyncio.Future[bytes] | None":
        """Send a request. Raises UpstreamError, LinkClosed.

        Returns a future of the frame of its answer; None if no answer will come.
        """
        if way.link is None or way.link.closed is not None:
            way.link = await self._cluster.open(way.node)
            self._result.connections += 1
        header = recorded.request.header
        name = recorded.client_id
        future = await way.link.send(
            recorded.api_key,
            ready.encoded.version,
            ready.encoded.body,
            client_id=None if name is None else name.encode("utf-8", "surrogateescape"),
            tags=header.unknown_tags if header is not None else (),
            answered=is_answered(recorded.api_key, ready.body),
        )
        if future is None:
            way.unconfirmed = True
            self._unconfirmed.setdefault(recorded.connection, []).append(way)
        return future

    async def confirm(self, but: ConnectionId | None = None) -> None:
        """Wait until requests without answers were processed, as requests on other connections may depend on them.

        A broker processes the requests of a connection in order: when it answers one, it has processed those before it.
        """
        for way in [one for connection, ways in self._unconfirmed.items() if connection != but for one in ways]:
            way.unconfirmed = False
            if way.link is None or self._cluster.versions is None:
                continue
            try:
                await way.link.ask(ApiKey.API_VERSIONS, 0, struct_types("ApiVersionsRequest")["ApiVersionsRequest"]())
            except (LinkClosed, DecodeError) as error:
                self._result.notes[f"after Produce with acks=0: {error}"] += 1
        self._unconfirmed = {one: ways for one, ways in self._unconfirmed.items() if one == but}

    def close_if_done(self, connection: ConnectionId) -> None:
        """Close the links of a recorded connection that has no requests left."""
        ways = self._ways.get(connection, {}).values()
        if self._left[connection] or any(way.unconfirmed or (way.link and way.link.in_flight) for way in ways):
            return
        for way in ways:
            way.abort("its last request was answered")
        self._ways.pop(connection, None)

    def close(self) -> None:
        for way in (way for ways in self._ways.values() for way in ways.values()):
            way.abort("the replay has ended")


async def answer_within(way: Way, future: "asyncio.Future[bytes]", seconds: float) -> bytes:
    """Return the frame of an answer. If it does not come in time, close the link and raise LinkClosed."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(future)
    except TimeoutError:
        why = f"no answer within {seconds:g} s"
        way.abort(why)
        raise LinkClosed(why) from None
