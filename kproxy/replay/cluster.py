"""The new cluster: connections to it (``Link``), its nodes, versions and topics, and which node stands for which recorded broker.

At first it gets only ApiVersions and Metadata, which create nothing: Metadata names no topics where that could create them.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kproxy.config.structs import BrokerTls
from kproxy.errors import DecodeError, LoginRefused, UpstreamError
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import log_in
from kproxy.output.times import render_size
from kproxy.protocol import ApiKey, Direction, known_message
from kproxy.protocol.addresses import Address, join_address
from kproxy.protocol.constants import SIZE_FIELD, ZERO_UUID
from kproxy.protocol.structs import struct_types
from kproxy.proxy.broker_client import Tags, decode_response, frame_request, request_header
from kproxy.proxy.network.tls import broker_context, server_name
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.versions import FIRST_OF_BATCHES, Range, nearest

MOST_ANSWER = 268_435_456  # bytes
LEAST_ANSWER = 4  # the correlation id
TLS_ALERT = 0x1503  # first bytes with which a TLS server answers plain text (RFC 8446, 5.1): an alert, version 3.x
CLIENT_ID = b"kproxy-replay"  # of replay's own requests
NO_AUTO_CREATION = 4  # the first version of Metadata that can ask for topics without having them created
LEAST_FETCH = 4  # the lowest version of Fetch of brokers from 4.0 on
TOPIC_IDS = 10  # the first with topic ids
SINGLE_KEYS = 3  # the last version of FindCoordinator that asks for one


class LinkClosed(Exception):
    """Raised where no answer will come; the text says why."""


class Link:
    """An open connection; ``close`` it in the end. Requests get correlation ids of this connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, patience: float
    ) -> None:
        self.address = address
        self.closed: str | None = None  # why, once it is
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._next = 0
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._receiving = asyncio.ensure_future(self._receive())

    @classmethod
    async def open(
        cls, upstream: Upstream, host: str, port: int, tls: tuple[ssl.SSLContext, str] | None, patience: float
    ) -> "Link":
        """Connect; *tls*: the context and the name to verify. Raises UpstreamError."""
        address = join_address(host, port)
        connected = await upstream.connect(host, port)
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"ssl": tls[0], "server_hostname": tls[1], "ssl_handshake_timeout": patience}
        try:
            reader, writer = await asyncio.open_connection(sock=connected, **options)
        except OSError as error:  # ssl.SSLError is one
            connected.close()
            why = str(error) or "the handshake was not answered; is that a listener with TLS?"
            raise UpstreamError(f"no TLS with {address}: {why}") from error
        return cls(reader, writer, address, patience)

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    async def send(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        client_id: bytes | None = CLIENT_ID,
        tags: Tags = (),
        answered: bool = True,
    ) -> "asyncio.Future[bytes] | None":
        """Send a request; the future gives the frame of its answer, or raises LinkClosed. None where none will come.

        Raises:
            LinkClosed: it is closed, or the broker reads no more.
        """
        if self.closed is not None:
            raise LinkClosed(self.closed)
        self._next = (self._next + 1) & 0x7FFFFFFF
        header = request_header(api_key, version, self._next, client_id, tags)
        future: asyncio.Future[bytes] | None = None
        if answered:
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
            self._waiting.append((self._next, future))
        self._writer.write(frame_request(header, body))
        try:
            async with asyncio.timeout(self._patience):
                await self._writer.drain()
        except TimeoutError:
            self.abort(f"{self.address} has read nothing for {self._patience:g} s")
        except OSError as error:
            self.abort(_words(error, self.address))
        return future

    async def ask(self, api_key: int, version: int, body: Any) -> Any:
        """Send a request of replay's own, as an object; return the decoded answer. Raises LinkClosed, DecodeError."""
        message = known_message(Direction.REQUEST, api_key)
        future = await self.send(api_key, version, message.encode(version, body))
        assert future is not None
        try:
            async with asyncio.timeout(self._patience):
                frame = await future
        except TimeoutError:
            self.abort(f"no answer from {self.address} within {self._patience:g} s")
            raise LinkClosed(self.closed) from None
        return decode_response(api_key, version, frame)

    def abort(self, why: str) -> None:
        """Close it at once; requests that wait for an answer get LinkClosed."""
        if self.closed is None:
            self.closed = why
        self._receiving.cancel()
        self._writer.transport.abort()
        self._fail()

    async def _receive(self) -> None:
        try:
            while True:
                self._give(await self._frame())
        except asyncio.IncompleteReadError:
            self._end(f"{self.address} closed the connection")
        except (OSError, LinkClosed) as error:
            self._end(str(error) if isinstance(error, LinkClosed) else _words(error, self.address))

    async def _frame(self) -> bytes:
        size = int.from_bytes(await self._reader.readexactly(SIZE_FIELD), "big", signed=True)
        if size >> 16 == TLS_ALERT:
            raise LinkClosed(f"{self.address} speaks TLS: give --tls, --tls-ca or --command-config")
        if not LEAST_ANSWER <= size <= MOST_ANSWER:
            raise LinkClosed(
                f"{self.address} sent a size field of {size}, where Kafka sends {LEAST_ANSWER} to"
                f" {render_size(MOST_ANSWER)}: is it a broker, without TLS?"
            )
        return await self._reader.readexactly(size)

    def _give(self, frame: bytes) -> None:
        if not self._waiting:
            raise LinkClosed(f"{self.address} sent an answer to nothing")
        correlation_id, future = self._waiting[0]
        if int.from_bytes(frame[:4], "big", signed=True) != correlation_id:
            raise LinkClosed(f"{self.address} answered in another order than it was asked")
        self._waiting.popleft()
        if not future.done():
            future.set_result(frame)

    def _end(self, why: str) -> None:
        self.closed = self.closed or why
        self._writer.transport.abort()
        self._fail()

    def _fail(self) -> None:
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(LinkClosed(self.closed))
        self._waiting.clear()


def is_answered(api_key: int, body: Any) -> bool:
    """Return whether a broker answers a request: all but Produce with acks=0."""
    return api_key != ApiKey.PRODUCE or body.acks != 0


def _retrieve(future: "asyncio.Future[bytes]") -> None:
    """Take the exception of a future that nothing waits for any more."""
    if not future.cancelled():
        future.exception()


def _words(error: OSError, address: str) -> str:
    return f"{address}: {error.strerror or error or type(error).__name__}"


@dataclass(frozen=True, slots=True)
class Topic:
    topic_id: str
    partitions: int
    leaders: Mapping[int, int] = field(default_factory=dict)  # partition -> node


@dataclass
class Cluster:
    """The cluster that requests are sent to; made by ``connect``."""

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
    async def connect(
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
            await _log_in(link, self.credentials, host)
        return link

    async def ask(self, node: int | None, api_key: int, version: int, body: Any) -> Any:
        """Ask a node on a connection of its own; return the decoded answer. Raises UpstreamError, LinkClosed, DecodeError."""
        link = await self.open(node)
        try:
            return await link.ask(api_key, version, body)
        finally:
            link.abort("asked")

    async def find_coordinator(self, key_type: int, key: str) -> Any:
        """Ask for the coordinator of a group or a transactional id. Raises as ``ask``."""
        version = min(self.version(ApiKey.FIND_COORDINATOR, SINGLE_KEYS), SINGLE_KEYS)
        body = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](key=key, key_type=key_type)
        return await self.ask(None, ApiKey.FIND_COORDINATOR, version, body)

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
        message = known_message(Direction.REQUEST, api_key)
        return nearest(message, wanted, self.spoken(api_key))

    async def learn_topics(self) -> None:
        """Ask for nodes and all topics. Raises UpstreamError."""
        try:
            version = 0 if self.versions is None else self.version(ApiKey.METADATA, 12)
            answer = await self.ask(None, ApiKey.METADATA, version, all_topics(version))
        except (LinkClosed, DecodeError) as error:
            wanted = "" if self.credentials else "; if it wants a login (SASL), give it with --command-config"
            raise UpstreamError(f"no Metadata from {self.bootstrap}: {error}{wanted}") from error
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
        request = struct_types("ApiVersionsRequest")["ApiVersionsRequest"]()
        try:
            answer = await self.ask(None, ApiKey.API_VERSIONS, 0, request)
            self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        except LinkClosed:
            self.versions = None  # a broker of 0.9 or before closes the connection; learn_topics says if it is none
        except DecodeError as error:
            raise UpstreamError(f"{self.bootstrap} does not answer as Kafka: {error}") from error


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


async def _log_in(link: Link, credentials: Credentials, host: str) -> None:
    try:
        await log_in(link.ask, credentials, host, asyncio.to_thread)
    except BaseException as error:
        link.abort("not logged in")
        if isinstance(error, LoginRefused):
            raise UpstreamError(f"no login at {link.address}: {error}; {error.advice}") from None
        if isinstance(error, LinkClosed | DecodeError):
            raise UpstreamError(f"no login at {link.address}: {error}") from None
        raise
