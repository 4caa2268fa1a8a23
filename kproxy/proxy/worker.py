"""A worker: forwards. `python -m kproxy.proxy.worker` with the words of ChildArguments (control.py).

It lives as long as its control channel: when the supervisor is gone, so is the worker.
"""

import asyncio
import gc
import logging
import os
import sys
import time
from typing import Any

import msgspec
import uvloop

from kproxy.config import Cluster, Config
from kproxy.errors import KproxyError
from kproxy.proxy.admission import Admission
from kproxy.proxy.control import Channel, begin_child, parse_child_arguments
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.logs import log
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import TapWriter
from kproxy.proxy.virtual_cluster import VirtualCluster, clock_offset

TICK_S = 0.25
SPARE, FULL = 0.90, 0.98  # of the memory budget: the tap pauses, nobody comes in
CONNECTIONS_A_LINE = 200
MOST_EVENTS_WAITING = 1_000


class Forwarding:
    """All virtual clusters of one worker, and what the supervisor asks of them."""

    def __init__(self, channel: Channel, counters: list[Counters], tap: TapWriter | None) -> None:
        self._channel = channel
        self._counters = counters
        self._own = counters[0]
        self._worker = Worker(self._own, tap, asyncio.get_running_loop())
        self._worker.clock_offset = clock_offset()
        self._clusters: dict[str, VirtualCluster] = {}
        self._retired: list[VirtualCluster] = []  # not listening any more; those who had come are still there
        self._admission: Admission | None = None
        self._config: Config | None = None
        self._draining: asyncio.Task[None] | None = None
        self._background: set[asyncio.Future[Any]] = set()
        self._changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def run(self) -> None:
        """Until the supervisor is gone or everything is drained."""
        try:
            async with asyncio.TaskGroup() as tasks:
                ticking = tasks.create_task(self._tick())
                changing = tasks.create_task(self._change())
                await self._hear(changing)
                changing.cancel()
                ticking.cancel()
        finally:
            for cluster in self._all_clusters():
                cluster.stop()
                await cluster.close()

    async def _hear(self, changing: asyncio.Task[None]) -> None:
        """Hear what the supervisor says, until it is gone or everything is drained."""
        async for said in self._channel:
            match said["do"]:
                case "drain":
                    changing.cancel()  # a configuration may wait long for a broker that does not answer
                    await asyncio.wait([changing])
                    self._draining = asyncio.ensure_future(self._drain(float(said["seconds"])))
                case "connections":
                    await self._list_connections(said["id"])
                case _:
                    self._changes.put_nowait(said)

    async def _change(self) -> None:
        """Make the changes that the supervisor asks for, one after the other."""
        while True:
            said = await self._changes.get()
            match said["do"]:
                case "configure":
                    await self._configure(said)
                case "brokers":
                    cluster = self._clusters.get(said["cluster"])
                    if cluster is not None:
                        cluster.learn([(node_id, host, port) for node_id, host, port in said["brokers"]])
                case "certificates":
                    for cluster in self._clusters.values():
                        cluster.opening.reload()

    async def _configure(self, said: dict[str, Any]) -> None:
        try:
            await self._take(msgspec.convert(said["config"], Config))
        except KproxyError as error:
            await self._channel.send({"said": "failed", "why": str(error)})
            return
        await self._channel.send({"said": "ready"})

    async def _take(self, config: Config) -> None:
        self._worker.memory_budget = config.limits.memory
        if self._admission is None:
            key = str(os.getppid()).encode()
            self._admission = Admission(config.limits, config.workers, self._counters, key)
        else:
            self._admission.configure(config.limits, config.workers)
        self._worker.connection_limit = self._admission.most_connections
        self._worker.checks_each_client = self._admission.checks_each_client
        self._config = config
        wanted = {cluster.name: cluster for cluster in config.clusters}
        fresh = await self._start_all([cluster for cluster in config.clusters if not self._is_served(cluster)], config)
        for name in [name for name in self._clusters if name not in wanted or name in fresh]:
            self._retire(self._clusters.pop(name))
        for name, running in self._clusters.items():
            running.configure(wanted[name], config)
        self._clusters.update(fresh)
        gc.collect()
        gc.freeze()

    def _is_served(self, cluster: Cluster) -> bool:
        running = self._clusters.get(cluster.name)
        return running is not None and running.serves(cluster)

    async def _start_all(self, clusters: list[Cluster], config: Config) -> dict[str, VirtualCluster]:
        """Those that begin, listening beside what still runs; where one cannot, none does."""
        assert self._admission is not None
        fresh: dict[str, VirtualCluster] = {}
        try:
            for cluster in clusters:
                fresh[cluster.name] = VirtualCluster(cluster, config, self._worker, self._admission, self._tell)
                await fresh[cluster.name].start()
        except (KproxyError, asyncio.CancelledError):
            for started in fresh.values():
                self._retire(started)
            raise
        return fresh

    def _retire(self, cluster: VirtualCluster) -> None:
        cluster.stop()
        self._retired.append(cluster)

    def _all_clusters(self) -> list[VirtualCluster]:
        return [*self._clusters.values(), *self._retired]

    def _tell(self, said: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._channel.send(said))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _list_connections(self, question: int) -> None:
        now = time.monotonic_ns()
        rows = [link.owner.row_of(link, now) for link in list(self._worker.links)]
        for start in range(0, len(rows) or 1, CONNECTIONS_A_LINE):
            part = rows[start : start + CONNECTIONS_A_LINE]
            more = start + CONNECTIONS_A_LINE < len(rows)
            await self._channel.send({"said": "connections", "id": question, "connections": part, "more": more})

    async def _drain(self, seconds: float) -> None:
        """Accept nobody, let what is in flight be answered, and end."""
        for cluster in self._clusters.values():
            cluster.stop()
        for link in list(self._worker.links):
            link.drain()
        until = time.monotonic() + seconds
        while (
            self._worker.links or any(cluster.leave() for cluster in self._all_clusters())
        ) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await self._channel.send({"said": "drained", "left": len(self._worker.links)})
        for cluster in self._all_clusters():
            await cluster.close()
        self._channel.close()

    async def _tick(self) -> None:
        """Timeouts, the memory budget, how late the loop is, and what is gone and not forgotten."""
        due = time.monotonic() + TICK_S
        while True:
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            late = int(max(time.monotonic() - due, 0.0) * 1e9)
            self._own.put(Total.LOOP_LAG_MAX_NS, max(late, self._own.total_of(Total.LOOP_LAG_MAX_NS)))
            due = time.monotonic() + TICK_S
            try:
                self._look_after()
            except Exception as error:  # a tick that ended would end all timeouts
                log("error", "a fault", reason=repr(error))

    def _look_after(self) -> None:
        self._worker.clock_offset = clock_offset()
        gone, self._worker.closed_links = self._worker.closed_links, []
        for link in gone:
            link.forget()
        self._retired = [cluster for cluster in self._retired if cluster.links()]
        for cluster in self._all_clusters():
            cluster.tick(time.monotonic_ns())
        self._keep_budget()

    def _keep_budget(self) -> None:
        budget = self._worker.memory_budget
        used = self._worker.buffered_bytes
        self._worker.tap_paused = bool(budget) and used > budget * SPARE
        for cluster in self._clusters.values():
            if budget and used > budget * FULL:
                cluster.pause()
            else:
                cluster.go_on()


async def _main(arguments: list[str]) -> None:
    given = parse_child_arguments(arguments)
    begin_child(given)
    channel = await Channel.of(given.control)
    logging.getLogger().handlers[:] = [ToSupervisor(channel)]
    logging.getLogger().setLevel(logging.INFO)
    counters = [Counters(fd) for fd in (given.counters, *given.others)]
    await Forwarding(channel, counters, TapWriter(given.taps[0]) if given.taps else None).run()


class ToSupervisor(logging.Handler):
    """Events go to the supervisor, who writes them."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._sending: set[asyncio.Future[None]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Send it; one of too many is lost."""
        if len(self._sending) >= MOST_EVENTS_WAITING:
            return
        keys = getattr(record, "keys", None) or {}
        sending = asyncio.ensure_future(self._channel.say_log(record.levelname.lower(), record.getMessage(), **keys))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1:]))
