"""Topic ids, brokers and the cluster id, as connections to one cluster have shown them. Bounded; shared by sessions.

Frames of REQUESTS_WITH_NAMES and RESPONSES_WITH_NAMES are kept undecoded and read only when a caller needs a name, a broker or
the cluster id; most are never needed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import join_address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.facts import Field
from kproxy.protocol.message import Message
from kproxy.protocol.structs import Struct

if TYPE_CHECKING:  # exchanges.pyx imports this module
    from kproxy.session.exchanges import Frame

_UNREAD = 32  # bodies kept unread
_UNREAD_SIZE = 4 * 1024 * 1024
_LARGEST = 16 * 1024 * 1024  # larger bodies are not decoded: as objects they take many times their size
_BODIES_REMEMBERED = 1_024  # clients send the same requests again and again
_LONGEST_NAME = 249  # Topic.MAX_NAME_LENGTH; a host name may have 253 bytes (RFC 1035)
_LONGEST_HOST = 253

# Bodies that have both a topic's name and its id, or name brokers.
REQUESTS_WITH_NAMES = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA})
RESPONSES_WITH_NAMES = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)


Names: TypeAlias = tuple[list[tuple[str, str]], list[tuple[int, str]], str | None]  # see ClusterView.names_in


class ClusterView:
    """Topic names by id, broker addresses by node id, and the cluster id."""

    def __init__(self, *, topics: int = 100_000, brokers: int = 10_000) -> None:
        self._topics: OrderedDict[str, str] = OrderedDict()
        self._brokers: OrderedDict[int, str] = OrderedDict()
        self._topic_limit = topics
        self._broker_limit = brokers
        self._cluster_id: str | None = None
        self._unread: deque[Frame] = deque()
        self._unread_size = 0
        self._seen: OrderedDict[int, None] = OrderedDict()  # hashes of bodies that were read

    def note(self, frame: Frame) -> None:
        """Keep a frame of REQUESTS_WITH_NAMES or RESPONSES_WITH_NAMES, to be read when needed."""
        if frame.message is None or frame.cut or len(frame.data) > _LARGEST or self._knows(frame):
            return
        self._unread.append(frame)
        self._unread_size += len(frame.data)
        while len(self._unread) > _UNREAD or self._unread_size > _UNREAD_SIZE:
            self._read_oldest()

    def _knows(self, frame: Frame) -> bool:
        body = hash(frame.data[frame.body_start :])
        known = body in self._seen
        self._seen[body] = None
        if len(self._seen) > _BODIES_REMEMBERED:
            self._seen.popitem(last=False)
        return known

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic id (in Kafka's text form), or None if no frame showed it."""
        self.read_all()
        name = self._topics.get(topic_id)
        if name is not None:
            self._topics.move_to_end(topic_id)
        return name

    @property
    def topics(self) -> Mapping[str, str]:
        """All known topic names, by id."""
        self.read_all()
        return self._topics

    @property
    def brokers(self) -> Mapping[int, str]:
        """The brokers' advertised addresses "host:port", by node id."""
        self.read_all()
        return self._brokers

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, from Metadata or DescribeCluster."""
        self.read_all()
        return self._cluster_id

    def learn_topic(self, topic_id: str, name: str) -> None:
        """Remember one topic; if there are too many, forget the least recently used one."""
        self._topics[topic_id] = name
        self._topics.move_to_end(topic_id)
        if len(self._topics) > self._topic_limit:
            self._topics.popitem(last=False)
            self._seen.clear()

    def read_all(self) -> None:
        """Read the frames kept by ``note``."""
        while self._unread:
            self._read_oldest()

    def _read_oldest(self) -> None:
        frame = self._unread.popleft()
        self._unread_size -= len(frame.data)
        topics, brokers, cluster_id = self.names_in(frame)
        for topic_id, name in topics:
            self.learn_topic(topic_id, name)
        for node_id, address in brokers:
            self._learn_broker(node_id, address)
        self._cluster_id = cluster_id or self._cluster_id

    def names_in(self, frame: Frame) -> Names:
        """Return the names in a frame: topic ids with names, node ids with addresses, and the cluster's id."""
        body = _decode(frame)
        if body is None:
            return [], [], None
        cluster_id = getattr(body, "cluster_id", None)
        return (
            [named for struct in _structs(body) if (named := _topic_in(struct)) is not None],
            [
                _broker_in(broker)
                for broker in getattr(body, "brokers", None) or ()
                if 0 < len(broker.host) <= _LONGEST_HOST
            ],
            cluster_id if cluster_id and len(cluster_id) <= _LONGEST_NAME else None,
        )

    def _learn_broker(self, node_id: int, address: str) -> None:
        if self._brokers.get(node_id, address) != address:
            self._seen.clear()  # the broker moved and may move back: read equal bodies again
        self._brokers[node_id] = address
        self._brokers.move_to_end(node_id)
        if len(self._brokers) > self._broker_limit:
            self._brokers.popitem(last=False)
            self._seen.clear()


def _topic_in(struct: Any) -> tuple[str, str] | None:
    topic_id = getattr(struct, "topic_id", None)
    if not topic_id or topic_id == ZERO_UUID:
        return None
    name = getattr(struct, "name", None) or getattr(struct, "topic_name", None)
    return (topic_id, name) if name and len(name) <= _LONGEST_NAME else None


def _broker_in(broker: Any) -> tuple[int, str]:
    node_id = broker.node_id if hasattr(broker, "node_id") else broker.broker_id
    return node_id, join_address(broker.host, broker.port)


class TopicNames(Mapping[str, str]):
    """Maps the topic ids in an exchange to names. Iterating decodes the exchange; looking up one id does not."""

    __slots__ = ("_cluster", "_frames", "_ids", "_names")

    def __init__(self, cluster: ClusterView, *frames: Frame | None) -> None:
        self._cluster = cluster
        self._frames = frames
        self._ids: frozenset[str] | None = None
        self._names: dict[str, str] | None = None

    @property
    def nameless(self) -> bool:
        """Whether some id in the exchange has no known name yet."""
        return any(self._cluster.topic_name(topic_id) is None for topic_id in self._all_ids())

    def __getitem__(self, topic_id: str) -> str:
        name = self._cluster.topic_name(topic_id)
        if name is None:
            raise KeyError(topic_id)
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return f"TopicNames({self._found()!r})"

    def _found(self) -> dict[str, str]:
        if self._names is None:
            names = ((topic_id, self._cluster.topic_name(topic_id)) for topic_id in sorted(self._all_ids()))
            self._names = {topic_id: name for topic_id, name in names if name is not None}
        return self._names

    def _all_ids(self) -> frozenset[str]:
        if self._ids is None:
            self._ids = frozenset(one for frame in self._frames if frame is not None for one in frame.topic_ids())
        return self._ids


def _decode(frame: Frame) -> Any:
    if frame.message is None or frame.cut:
        return None
    try:
        return frame.decode()
    except DecodeError:
        return None


def _structs(struct: Struct) -> Iterator[Any]:
    """Yield a decoded struct and all structs inside it."""
    yield struct
    for field in struct.fields:
        if field.is_struct:
            value = getattr(struct, field.attribute)
            for below in value if isinstance(value, list) else [value]:
                if below is not None:
                    yield from _structs(below)


def has_topic_ids(message: Message | None, version: int) -> bool:
    """Return whether a message has a field for a topic id at that version, which may be above the facts."""
    return message is not None and any(_has_topic_id(layout.fields, version) for layout in message.layouts)


def _has_topic_id(fields: tuple[Field, ...], version: int) -> bool:
    here = (field for field in fields if version in field.versions)
    return any(field.attribute == "topic_id" or _has_topic_id(field.fields, version) for field in here)
