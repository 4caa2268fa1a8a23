"""The new cluster: its address, nodes, versions and topics, and which of its nodes stands for which recorded broker.

At first it gets only ApiVersions and Metadata, which create nothing: Metadata names no topics where that could create them.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.config import BrokerTls
from kproxy.errors import DecodeError, UpstreamError
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import LoginRefused, log_in
from kproxy.protocol import ApiKey, request_message
from kproxy.protocol.addresses import Address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.structs import struct_types
from kproxy.proxy.network.tls import broker_context, server_name
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.link import Link, LinkClosed
from kproxy.replay.versions import FIRST_OF_BATCHES, Range, nearest

NO_AUTO_CREATION = 4  # the first version of Metadata that can ask for topics without having them created
LEAST_FETCH = 4  # the lowest version of Fetch of brokers from 4.0 on
TOPIC_IDS = 10  # the first with topic ids


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the new cluster."""

    topic_id: str
    partitions: int
    leaders: Mapping[int, int] = field(default_factory=dict)  # partition -> node


@dataclass
class Cluster:
    """The cluster that requests are sent to; made by ``ask``."""

    bootstrap: Address
    upstream: Upstream
    tls: BrokerTls | None
    patience: float
    context: ssl.SSLContext | None = None
    versions: Mapping[int, Range] | None = None  # None: it does not answer ApiVersions, as before 0.10
    nodes: dict[int, Address] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    credentials: Credentials | None = None

    @classmethod
    async def ask(
        cls, bootstrap: Address, tls: BrokerTls | None, patience: float, credentials: Credentials | None = None
    ) -> "Cluster":
        """Connect, log in if there are credentials, and ask for versions, nodes and topics. Raises UpstreamError."""
        context = None if tls is None else broker_context(tls)
        upstream = Upstream(timeout=patience, allow_link_local=True)
        cluster = cls(bootstrap, upstream, tls, patience, context, credentials=credentials)
        await cluster._learn_versions()
        await cluster.learn_topics()
        return cluster

    async def open(self, node: int | None) -> Link:
        """Connect to a node. Raises UpstreamError.

        Without a node, or if there is only one, connect to the address that was given.
        """
        only = len(self.nodes) < 2
        host, port = self.bootstrap if node is None or only else self.nodes.get(node, self.bootstrap)
        tls = None if self.tls is None or self.context is None else (self.context, server_name(self.tls, host))
        link = await Link.open(self.upstream, host, port, tls, self.patience)
        if self.credentials is not None:
            await _log_in(link, self.credentials)
        return link

    def speaks(self, api_key: int) -> bool:
        """Return whether the brokers list an API in ApiVersions; True if they did not answer that."""
        return self.versions is None or api_key in self.versions

    def spoken(self, api_key: int) -> Range | None:
        """Return the versions of an API; None if the brokers did not say."""
        spoken = None if self.versions is None else self.versions.get(api_key)
        if spoken is None or api_key != ApiKey.PRODUCE or self.versions is None:
            return spoken
        # Brokers from 4.0 on name versions of Produce from 0 on, for librdkafka's sake, and refuse those before 3 (KIP-896)
        fetch = self.versions.get(ApiKey.FETCH, (0, 0))
        return (max(spoken[0], FIRST_OF_BATCHES), spoken[1]) if fetch[0] >= LEAST_FETCH else spoken

    def version(self, api_key: int, wanted: int) -> int:
        """Return the version nearest to the wanted one that both sides know. Raises Unsendable."""
        message = request_message(api_key)
        assert message is not None
        return nearest(message, wanted, self.spoken(api_key))

    async def learn_topics(self) -> None:
        """Ask for nodes and all topics. Raises UpstreamError."""
        link = await self.open(None)
        try:
            version = 0 if self.versions is None else self.version(ApiKey.METADATA, 12)
            answer = await link.ask(ApiKey.METADATA, version, all_topics(version))
        except (LinkClosed, DecodeError) as error:
            wanted = "" if self.credentials else "; if it wants a login (SASL), give it with --command-config"
            raise UpstreamError(f"no Metadata from {self.bootstrap}: {error}{wanted}") from error
        finally:
            link.abort("asked")
        self.nodes = {broker.node_id: Address(str(broker.host), broker.port) for broker in answer.brokers}
        self.topics = {
            topic.name: Topic(
                topic.topic_id if version >= TOPIC_IDS else ZERO_UUID,
                len(topic.partitions),
                {one.partition_index: one.leader_id for one in topic.partitions if one.leader_id >= 0},
            )
            for topic in answer.topics
            if topic.name and not topic.error_code
        }

    async def _learn_versions(self) -> None:
        link = await self.open(None)
        try:
            answer = await link.ask(ApiKey.API_VERSIONS, 0, struct_types("ApiVersionsRequest")["ApiVersionsRequest"]())
            self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        except LinkClosed:
            self.versions = None  # a broker of 0.9 or before closes the connection; learn_topics says if it is none
        except DecodeError as error:
            raise UpstreamError(f"{self.bootstrap} does not answer as Kafka: {error}") from error
        finally:
            link.abort("asked")


def all_topics(version: int) -> Any:
    """Make a Metadata request for all topics that creates none."""
    body: Any = struct_types("MetadataRequest")["MetadataRequest"]()
    body.topics = None if version >= 1 else []
    body.allow_auto_topic_creation = version < NO_AUTO_CREATION  # older versions have no such field
    return body


def map_nodes(recorded: Mapping[str, int], nodes: Mapping[int, Address]) -> dict[int, int]:
    """Map recorded node ids to nodes of the new cluster: to the same id if it exists, else in turn."""
    if not nodes:
        return {}
    new = sorted(nodes)
    old = sorted({node for node in recorded.values() if node >= 0})
    return {node: node if node in nodes else new[place % len(new)] for place, node in enumerate(old)}


def node_of(address: str, recorded: Mapping[str, int]) -> int | None:
    """Return the recorded node id of a broker: by its address, or by its port if only one node has that."""
    if address in recorded:
        return recorded[address]
    port = address.rpartition(":")[2]
    nodes = {node for other, node in recorded.items() if other.rpartition(":")[2] == port}
    return nodes.pop() if len(nodes) == 1 else None


async def _log_in(link: Link, credentials: Credentials) -> None:
    try:
        await log_in(link.ask, credentials)
    except BaseException as error:
        link.abort("not logged in")
        if isinstance(error, LoginRefused):
            raise UpstreamError(f"no login at {link.address}: {error}; {error.advice}") from None
        if isinstance(error, LinkClosed | DecodeError):
            raise UpstreamError(f"no login at {link.address}: {error}") from None
        raise
