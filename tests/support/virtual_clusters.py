"""A virtual cluster on a running uvloop, before brokers that are sockets of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from kproxy.config.structs import Analysis, Cluster, Config, Limits, Timeouts
from kproxy.protocol import message, response_header_version
from kproxy.proxy.admission import Admission
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.tap.counted import GAUGES, CloseCause, Total
from kproxy.proxy.tap.counters import Counters, SharedLimits
from kproxy.proxy.virtual_cluster import VirtualCluster
from tests.support.backend import answer_to, frame_from, listening
from tests.support.loops import PATIENCE_S
from tests.support.messages import make
from tests.support.ports import free_ports

Brokers = list[tuple[int, str, int]]
METADATA, API_VERSIONS = 3, 18


def api_versions(version: int, most_metadata: int = 12) -> bytes:
    """An answer that offers Metadata up to a version, and ApiVersions."""
    keys = [
        {"api_key": key, "min_version": 0, "max_version": most}
        for key, most in ((METADATA, most_metadata), (API_VERSIONS, 3))
    ]
    return message("ApiVersionsResponse").encode(version, make("ApiVersionsResponse", api_keys=keys))


def metadata(version: int, brokers: Brokers, topics: Sequence[str] = ()) -> bytes:
    """An answer that tells of brokers and topics."""
    parts = [{"node_id": id_, "host": host, "port": port} for id_, host, port in brokers]
    named = [{"name": topic} for topic in topics]
    return message("MetadataResponse").encode(version, make("MetadataResponse", brokers=parts, topics=named))


class Broker:
    """Answers ApiVersions and Metadata as a broker does, and everything else with as many bytes as were sent.

    As a context it listens, on a free port if it has none.
    """

    def __init__(self, brokers: Brokers | None = None, most_metadata: int = 12) -> None:
        self.brokers = brokers
        self.most_metadata = most_metadata
        self.topics: Sequence[str] = ()
        self.port = 0
        self.came = 0
        self.asked: list[tuple[int, int]] = []
        self.preamble = b""  # what every connection sent first, where ``reads_preamble``
        self.reads_preamble = 0

    async def __aenter__(self) -> Self:
        self._listening = listening(self.serve, port=self.port)
        self.port = await self._listening.__aenter__()
        self.address = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.__aexit__(None, None, None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        if self.reads_preamble:
            self.preamble = await reader.readexactly(self.reads_preamble)
        while True:
            writer.write(self.answer(await frame_from(reader)))
            await writer.drain()

    def answer(self, frame: bytes) -> bytes:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        self.asked.append((key, version))
        told = self.brokers if self.brokers is not None else [(0, "127.0.0.1", self.port)]
        if key == API_VERSIONS:
            body = api_versions(version, self.most_metadata)
        elif key == METADATA:
            body = b"\0" * response_header_version(key, version) + metadata(version, told, self.topics)
        else:
            body = frame[8:]
        return answer_to(frame, body)


class Front:
    """A virtual cluster that is started; the messages for the supervisor are in ``sent``."""

    def __init__(self, bootstrap: str, limits: Limits, timeouts: Timeouts, tap: Any = None, **cluster: Any) -> None:
        self.counters = Counters.create()
        self.shared = SharedLimits.create()
        self.worker = Worker(self.counters, tap, asyncio.get_running_loop(), limits=self.shared)
        self.port = free_ports(12)
        self.address = f"127.0.0.1:{self.port}"
        self.sent: list[Any] = []
        given = {"listen": self.address, "bootstrap": [bootstrap] if bootstrap else []} | cluster
        self.limits, self.timeouts = limits, timeouts
        self.config = self.with_cluster(Cluster(**given))
        admission = Admission(limits, self.counters, self.shared, b"key")
        self.worker.connection_limit, self.worker.checks_each_client = limits.connections, admission.checks_each_client
        self.cluster = VirtualCluster(self.config.clusters[0], self.config, self.worker, admission, self.sent.append)

    def with_cluster(self, cluster: Cluster) -> Config:
        return Config(clusters=[cluster], limits=self.limits, timeouts=self.timeouts, analysis=Analysis(enabled=False))

    def total(self, which: Total) -> int:
        return self.counters.total_of(which)

    @property
    def causes(self) -> dict[CloseCause, int]:
        """Why connections ended, and how many."""
        return {cause: count for cause, count in self.counters.closes().items() if count}

    async def connect(self, port: int | None = None, **words: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client."""
        return await asyncio.open_connection("127.0.0.1", port or self.port, **words)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something, of which no event tells."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.005)
                self.cluster.tick(0)  # long before any timeout


@contextlib.asynccontextmanager
async def front(
    bootstrap: str, limits: Limits | None = None, timeouts: Timeouts | None = None, tap: Any = None, **cluster: Any
) -> AsyncIterator[Front]:
    """A started virtual cluster; at the end it must leave no connection, byte or request behind."""
    made = Front(bootstrap, limits or Limits(), timeouts or Timeouts(), tap, **cluster)
    try:
        await made.cluster.start()
        yield made
    finally:
        made.cluster.stop()
        await made.cluster.close()
        for link in made.worker.closed_links:
            link.forget()
        for _ in range(5):
            await asyncio.sleep(0)
    left = {gauge: made.total(gauge) for gauge in GAUGES if gauge is not Total.LOOP_LAG_MAX_NS}
    assert not any(left.values()), f"closed connections leave {left}"
    assert not made.worker.links and not made.worker.links_of


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> bytes:
    """Send a request; gives the response frame."""
    writer.write(sent)
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
