"""A worker process: forwards. It handles the messages of ToWorker (messages.py) and ticks its virtual clusters.

It lives as long as its channel: when the supervisor is gone, the worker exits.
"""

import asyncio
import gc
import itertools
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from kproxy.config.structs import Cluster, Config
from kproxy.errors import KproxyError
from kproxy.filters.chain import Chain
from kproxy.proxy import messages
from kproxy.proxy.admission import OF_THIS_PROCESS, Admission
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.codec_thread import end_codec_thread
from kproxy.proxy.filter_runtime import Journals
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.logs import EVENTS_LOST, event_of, log, log_dropped_message
from kproxy.proxy.messages import Channel
from kproxy.proxy.otlp.exporter import FLUSH_S, Exporters
from kproxy.proxy.scheduling import take_short_slices
from kproxy.proxy.shared_state import SharedCounts
from kproxy.proxy.system_calls import forget_code
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters, SharedLimits
from kproxy.proxy.tap.ring import TapWriter
from kproxy.proxy.virtual_cluster import VirtualCluster, clock_offset

if TYPE_CHECKING:
    from kproxy.proxy.stops import Stops

TICK_S = 0.25
ALIVE_TICKS = 4  # ticks after which Alive is sent to the supervisor
PAUSE_TAP_ABOVE, PAUSE_ACCEPTING_ABOVE = 0.90, 0.98  # of the memory budget
CONNECTIONS_A_MESSAGE = 200
LINKS_IN_A_TURN = 32  # drained or forgotten before other work gets its turn
MOST_METRICS_WAITING = 1_000  # messages with numbers of clients (filter telemetry) that are not sent yet
MOST_EVENTS_WAITING = 1_000  # log events that are not sent yet


class Forwarding:
    """The virtual clusters of one worker; handles the supervisor's messages."""

    def __init__(
        self,
        number: int,
        channel: Channel[messages.ToWorker],
        counters: Counters,
        tap: TapWriter | None,
        limits: SharedLimits | None = None,
        counts: SharedCounts | None = None,
    ) -> None:
        self._number = number
        self._channel = channel
        self._own = counters
        self._counts = counts
        self._limits = limits or SharedLimits.create()
        self._worker = Worker(counters, tap, asyncio.get_running_loop(), limits=self._limits)
        if self._worker.tapping is not None:
            self._worker.tapping.clock_offset = clock_offset()
        self._journals = Journals(number, counts)
        self._exporters = Exporters()
        self._clusters: dict[str, VirtualCluster] = {}
        self._retired: list[VirtualCluster] = []  # closed their listeners, still have links
        self._admission: Admission | None = None
        self._draining: asyncio.Task[None] | None = None
        self._background: set[asyncio.Future[Any]] = set()
        self._changes: asyncio.Queue[messages.Message] = asyncio.Queue()
        self._stops: Stops | None = None  # made when the configuration allows edits
        self._breakpoints: list[messages.SetBreakpoint] = []

    async def run(self) -> None:
        """Run until everything is drained or the supervisor is gone."""
        try:
            async with asyncio.TaskGroup() as tasks:
                ticking = tasks.create_task(self._tick())
                changing = tasks.create_task(self._change())
                await self._receive(changing)
                changing.cancel()
                ticking.cancel()
        finally:
            for cluster in self._all_clusters():
                cluster.stop()
                await cluster.close()
            self._journals.close()
            end_codec_thread()

    async def _receive(self, changing: asyncio.Task[None]) -> None:
        """Receive messages until the channel ends. Changes of the clusters are queued; all else is handled at once."""
        async for message in self._channel:
            match message:
                case messages.Drain(seconds):
                    changing.cancel()  # a configuration may wait long for a broker that does not answer
                    await asyncio.wait([changing])
                    self._draining = asyncio.ensure_future(self._drain(seconds))
                case messages.ListConnections(question):
                    await self._list_connections(question)
                case messages.ShowStop() | messages.Decide() | messages.ResumeAll():
                    if self._stops is not None:
                        self._stops.handle(message)
                case _:
                    self._changes.put_nowait(message)

    async def _change(self) -> None:
        """Make the queued changes, one after the other."""
        while True:
            match await self._changes.get():
                case messages.Configure() as message:
                    await self._configure(message)
                case messages.Brokers(name, brokers):
                    if name in self._clusters:
                        self._clusters[name].learn(brokers)
                case messages.Learned(at, name, values):
                    if at in self._clusters:
                        self._clusters[at].shared_sets.receive(name, values)
                case messages.KnownKeys(at, url, keys):
                    logins = self._clusters[at].opener.logins if at in self._clusters else None
                    if logins is not None:
                        logins.receive_keys(url, keys)
                case messages.ReloadCertificates():
                    for cluster in self._clusters.values():
                        cluster.opener.reload()
                case messages.UseBreakpoints(breakpoints, question):
                    self._use_breakpoints(breakpoints)
                    await self._channel.send(messages.StopAnswer(question))

    def _use_breakpoints(self, breakpoints: list[messages.SetBreakpoint]) -> None:
        self._breakpoints = breakpoints
        for cluster in self._clusters.values():
            cluster.use_breakpoints(breakpoints)

    async def _configure(self, message: messages.Configure) -> None:
        try:
            await self._use(message.decode(), message.reload_filters)
        except (KproxyError, msgspec.MsgspecError) as error:
            await self._channel.send(messages.Failed.because(error))
            return
        for change in self._journals.changes():
            await self._channel.send(change)
        await self._channel.send(messages.Ready())

    async def _use(self, config: Config, reload_filters: bool) -> None:
        """Use a configuration. Raises KproxyError, and then the one before stays in use."""
        self._worker.memory_budget = config.limits.memory
        if self._admission is None:
            key = str(os.getppid()).encode()
            self._admission = Admission(config.limits, self._own, self._limits, key)
        else:
            self._admission.configure(config.limits)
        self._worker.connection_limit = config.limits.connections
        self._worker.checks_each_client = self._admission.checks_each_client
        if self._worker.checks_each_client:  # those that came before there was a limit count too
            for link in self._worker.links:
                if link.client_host_slot is None:
                    link.client_host_slot = self._admission.count(link.peer)
        if config.page.edits and self._stops is None:
            from kproxy.proxy.stops import Stops  # noqa: PLC0415 - with what it imports, which most workers do without

            self._stops = Stops(self._number, self._send)
        wanted = {cluster.name: cluster for cluster in config.clusters}
        served = {name for name, running in self._clusters.items() if name in wanted and running.serves(wanted[name])}
        fresh = await self._start_all([cluster for cluster in config.clusters if cluster.name not in served], config)
        for name in [name for name in self._clusters if name not in wanted or name in fresh]:
            self._retire(self._clusters.pop(name))
            if self._stops is not None:
                self._stops.resume_all(why="cluster removed", cluster=name)
        for name, running in self._clusters.items():
            running.configure(wanted[name], config, reload_filters)
        self._clusters.update(fresh)
        if self._stops is not None:
            self._stops.configure(config.page)
        if not config.page.edits:
            self._use_breakpoints([])
        gc.collect()
        gc.freeze()
        forget_code()

    async def _start_all(self, clusters: list[Cluster], config: Config) -> dict[str, VirtualCluster]:
        """Start new virtual clusters in addition to those that run; if one cannot start, none does."""
        assert self._admission is not None
        fresh: dict[str, VirtualCluster] = {}
        try:
            for cluster in clusters:
                fresh[cluster.name] = VirtualCluster(
                    cluster,
                    config,
                    self._worker,
                    self._admission,
                    self._send,
                    self._journals,
                    self._counts,
                    self._exporters,
                    self._stops,
                    self._breakpoints,
                )
                await fresh[cluster.name].start()
        except (KproxyError, asyncio.CancelledError):
            for started in fresh.values():
                self._retire(started)
            raise
        return fresh

    def _retire(self, cluster: VirtualCluster) -> None:
        """Close the listeners of a cluster. Its links go on, without breakpoints: no page could show their stopped messages."""
        cluster.stop()
        cluster.use_breakpoints([])
        self._retired.append(cluster)

    def _all_clusters(self) -> list[VirtualCluster]:
        return [*self._clusters.values(), *self._retired]

    def _send(self, message: messages.Message) -> None:
        """Send a message. Metrics of clients are dropped while the supervisor does not read, as newer ones follow."""
        if isinstance(message, messages.ClientMetrics) and len(self._background) >= MOST_METRICS_WAITING:
            return
        task = asyncio.ensure_future(self._channel.send(message))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _list_connections(self, question: int) -> None:
        now = time.monotonic_ns()
        links = list(self._worker.links)
        for start in range(0, len(links) or 1, CONNECTIONS_A_MESSAGE):
            part = [link for link in links[start : start + CONNECTIONS_A_MESSAGE] if not link.closed]
            rows = [link.owner.row_of(link, now, self._number) for link in part]
            more = start + CONNECTIONS_A_MESSAGE < len(links)
            await self._channel.send(messages.Connections(question, rows, more))
            await asyncio.sleep(0)

    async def _drain(self, seconds: float) -> None:
        """Stop accepting, wait until what is in flight is answered, close everything and end the channel."""
        if self._stops is not None:
            self._stops.drain()
        for cluster in self._clusters.values():
            cluster.stop()
        for number, link in enumerate(list(self._worker.links), 1):
            link.drain()
            if number % LINKS_IN_A_TURN == 0:
                await asyncio.sleep(0)
        until = time.monotonic() + seconds
        while (
            self._worker.links or any(cluster.lingering() for cluster in self._all_clusters())
        ) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await self._exporters.close(min(FLUSH_S, max(until - time.monotonic(), 0.1)))
        await self._channel.send(messages.Drained(len(self._worker.links)))
        for cluster in self._all_clusters():
            await cluster.close()
        self._channel.close()

    async def _tick(self) -> None:
        """Four times a second measure how late the loop is, then look after timeouts, the memory budget and closed links.

        Once a second send Alive to the supervisor.
        """
        due = time.monotonic() + TICK_S
        alive: asyncio.Future[bool] | None = None
        for tick in itertools.count():
            if tick % ALIVE_TICKS == 0 and (
                alive is None or alive.done()
            ):  # a supervisor that is stopped does not read
                alive = asyncio.ensure_future(self._channel.send(messages.Alive()))
                for change in self._journals.changes():
                    self._send(change)
                for cluster in self._clusters.values():
                    cluster.count_filter_times()
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            late = int(max(time.monotonic() - due, 0.0) * 1e9)
            self._own.put(Total.LOOP_LAG_MAX_NS, max(late, self._own.total_of(Total.LOOP_LAG_MAX_NS)))
            due = time.monotonic() + TICK_S
            try:
                await self._forget_closed()
                if self._worker.tapping is not None:
                    self._worker.tapping.clock_offset = clock_offset()
                self._retired = [cluster for cluster in self._retired if cluster.links()]
                for cluster in self._all_clusters():
                    cluster.tick(time.monotonic_ns())
                self._worker.look_after_starved(time.monotonic_ns())
                self._keep_budget()
            except MemoryError:  # what this has paused stays paused until there is memory
                OF_THIS_PROCESS.release()
            except Exception as error:  # an end of this loop would end all timeouts
                log("error", "a fault", reason=repr(error))

    async def _forget_closed(self) -> None:
        gone, self._worker.closed_links = self._worker.closed_links, []
        while gone:
            for link in gone[-LINKS_IN_A_TURN:]:
                link.forget()
            del gone[-LINKS_IN_A_TURN:], link
            await asyncio.sleep(0)

    def _keep_budget(self) -> None:
        """Pause the tap, then accepting, when the memory budget is nearly used up; resume when it is not."""
        budget = self._worker.memory_budget
        used = self._worker.buffered_bytes
        if self._worker.tapping is not None:
            self._worker.tapping.paused = bool(budget) and used > budget * PAUSE_TAP_ABOVE
        for cluster in self._clusters.values():
            if budget and used > budget * PAUSE_ACCEPTING_ABOVE:
                cluster.pause()
            else:
                cluster.resume()


class ToSupervisor(logging.Handler):
    """Sends log events to the supervisor, which writes them: events of any thread, as libraries log where they are called."""

    def __init__(self, channel: Channel[messages.ToWorker]) -> None:
        super().__init__()
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._sending: set[asyncio.Future[bool]] = set()
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Send the event, or count it as lost if MOST_EVENTS_WAITING events are not sent yet."""
        if asyncio._get_running_loop() is not self._loop:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.emit, record)
            return
        if len(self._sending) >= MOST_EVENTS_WAITING:
            self._lost += 1
            return
        if self._lost:
            self._start_sending(messages.LogEvent("warning", EVENTS_LOST, {"count": self._lost}))
            self._lost = 0
        self._start_sending(event_of(record))

    def _start_sending(self, event: messages.LogEvent) -> None:
        try:
            sending = asyncio.ensure_future(self._channel.send(event))
            self._sending.add(sending)
        except MemoryError:
            self._lost += 1
            return
        sending.add_done_callback(self._sending.discard)


def _on_malformed(reason: str) -> None:
    log("error", "a message of the supervisor cannot be decoded", reason=reason)


async def _run(arguments: ChildArguments) -> None:
    channel: Channel[messages.ToWorker] = await Channel.open(
        arguments.control, messages.ToWorker, _on_malformed, log_dropped_message
    )
    logging.getLogger().handlers[:] = [ToSupervisor(channel)]
    logging.getLogger().setLevel(logging.INFO)
    counters = Counters(arguments.counters)
    limits = SharedLimits(arguments.limits) if arguments.limits >= 0 else None
    tap = TapWriter(arguments.taps[0], arguments.doorbell) if arguments.taps else None
    counts = SharedCounts(arguments.counts) if arguments.counts >= 0 else None
    await Forwarding(arguments.worker, channel, counters, tap, limits, counts).run()


def prepare() -> None:
    """Fill the caches that every worker uses; in the supervisor, before workers are forked."""
    messages.decoder(messages.ToWorker)
    Plan(Chain(()), None, 0)
    "localhost".encode("idna")  # as getaddrinfo does


def main(arguments: ChildArguments) -> None:
    """Forward until drained, or until the supervisor is gone."""
    take_short_slices()
    uvloop.run(_run(arguments))
