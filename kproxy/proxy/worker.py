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

from kproxy.config import Config
from kproxy.errors import KproxyError
from kproxy.proxy.admission import Admission
from kproxy.proxy.control import Channel, begin_child, parse_child_arguments
from kproxy.proxy.counted import Total
from kproxy.proxy.counters import Counters
from kproxy.proxy.lane import Worker
from kproxy.proxy.ring import TapWriter
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
        self._admission: Admission | None = None
        self._config: Config | None = None
        self._draining: asyncio.Task[None] | None = None
        self._background: set[asyncio.Future[Any]] = set()

    async def run(self) -> None:
        """Until the supervisor is gone or everything is drained."""
        ticking = asyncio.ensure_future(self._tick())
        try:
            async for said in self._channel:
                if await self._do(said):
                    return
        finally:
            ticking.cancel()
            for cluster in self._clusters.values():
                cluster.stop()
                await cluster.close()

    async def _do(self, said: dict[str, Any]) -> bool:
        """Do what the supervisor says; True: that was the last."""
        match said["do"]:
            case "configure":
                await self._configure(said)
            case "drain":
                self._draining = asyncio.ensure_future(self._drain(float(said["seconds"])))
            case "connections":
                await self._list_connections(said["id"])
            case "brokers":
                cluster = self._clusters.get(said["cluster"])
                if cluster is not None:
                    cluster.learn([(node_id, host, port) for node_id, host, port in said["brokers"]])
            case "certificates":
                for cluster in self._clusters.values():
                    cluster.opening.reload()
        return False

    async def _configure(self, said: dict[str, Any]) -> None:
        try:
            await self._take(msgspec.convert(said["config"], Config))
        except KproxyError as error:
            await self._channel.send({"said": "failed", "why": str(error)})
            return
        await self._channel.send({"said": "ready"})

    async def _take(self, config: Config) -> None:
        self._worker.memory = config.limits.memory
        if self._admission is None:
            key = str(os.getppid()).encode()
            self._admission = Admission(config.limits, config.workers, self._counters, key)
        else:
            self._admission.configure(config.limits, config.workers)
        self._worker.most_connections = self._admission.most_connections
        self._worker.choosy = self._admission.choosy
        self._config = config
        wanted = {cluster.name: cluster for cluster in config.clusters}
        for name in [name for name in self._clusters if name not in wanted]:
            self._clusters.pop(name).stop()
        for name, cluster in wanted.items():
            running = self._clusters.get(name)
            if running is not None and running.serves(cluster):
                running.configure(cluster, config)
                continue
            fresh = VirtualCluster(cluster, config, self._worker, self._admission, self._tell)
            await fresh.start()
            if running is not None:
                running.stop()
            self._clusters[name] = fresh
        gc.collect()
        gc.freeze()

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
        while self._worker.links and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await self._channel.send({"said": "drained", "left": len(self._worker.links)})
        for cluster in self._clusters.values():
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
            self._worker.clock_offset = clock_offset()
            gone, self._worker.gone = self._worker.gone, []
            for link in gone:
                link.forget()
            for cluster in self._clusters.values():
                cluster.tick(time.monotonic_ns())
            self._keep_budget()

    def _keep_budget(self) -> None:
        budget = self._worker.memory
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
