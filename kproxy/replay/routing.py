"""Router: which node of the new cluster a request goes to, as that has leaders and coordinators of its own.

a cluster of one node                       that node, at the address that was given
a group, a transactional id                 its coordinator, which is looked up once
Produce, Fetch and others for leaders       the leader, if all partitions of the request have the same one
all others, and where that is not known     the node that stands for the recorded connection's broker
"""

from collections.abc import Callable, Iterator
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.structs import struct_types
from kproxy.replay.link import LinkClosed
from kproxy.replay.plan import Plan
from kproxy.replay.recording import ConnectionId, Recorded

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
SINGLE_KEYS = 3  # the last version of FindCoordinator that asks for one
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
        version = min(self._plan.cluster.version(ApiKey.FIND_COORDINATOR, SINGLE_KEYS), SINGLE_KEYS)
        body = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](key=key[1], key_type=key[0])
        try:
            link = await self._plan.cluster.open(None)
        except UpstreamError:
            return default
        try:
            answer = await link.ask(ApiKey.FIND_COORDINATOR, version, body)
        except (LinkClosed, DecodeError):
            return default
        finally:
            link.abort("asked")
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
