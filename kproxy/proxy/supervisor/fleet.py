"""The workers and the analyzer together: their shared memory, their configuration, what one learns for the others."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from kproxy.config import Config
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.logs import log
from kproxy.proxy.messages import AnalyzerCounts, Brokers, Configure, Connections, Drain, ForgetWorker, Message
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.processes import ANALYZER, WORKER
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import create_ring, detach_reader

ANALYZER_START_S = 3.0  # seconds that readiness waits for the analyzer
LONGER = 0.5  # seconds that a worker may live beyond the time it was given to drain; the analyzer half of it more


class Modules(NamedTuple):
    """What is run as worker and as analyzer, by dotted names."""

    worker: str = WORKER
    analyzer: str = ANALYZER


OURS = Modules()


class Post(NamedTuple):
    """A worker and the memory that it shares with us and the analyzer, which stays when the worker dies."""

    child: Child
    counters: Counters
    tap: tuple[int, ...]  # the ring's file descriptor; () where we were started without analysis: a ring is memory
    first: asyncio.Future[str]  # how the first process took its configuration: "" or why not


class Fleet:
    """All child processes."""

    def __init__(self, config: Config, modules: Modules = OURS) -> None:
        self.config = config
        self._configure = Configure.to(config)
        self.draining = False
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why we cannot go on
        self.on_connections: Callable[[Connections], None] = _ignore
        self.on_counts: Callable[[AnalyzerCounts], None] = _ignore
        self.posts: list[Post] = []
        self._modules = modules
        self._tapped = config.analysis.enabled
        self._leaving: list[Post] = []  # more workers than asked for by now, draining
        self._retired: list[Counters] = []  # of workers that left: what was counted stays counted
        self._analyzer: Child | None = None
        self._brokers: dict[str, Brokers] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._analyzing: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._serving = False

    async def start(self) -> str:
        """Start everything. Returns "" when every worker is ready, else at once why one is not."""
        self._add_workers()
        self._set_analyzer()
        for first in asyncio.as_completed([post.first for post in self.posts]):
            why = await first
            if why:
                return why
        if self._analyzer:  # what passes before it reads would be lost to it; traffic does not wait for it long
            await asyncio.wait([self._analyzing], timeout=ANALYZER_START_S)
        self._serving = True
        return ""

    async def change(self, config: Config) -> str:
        """Have everyone take another configuration; if one cannot, all go back to the one before. Returns "" or why."""
        before = self.config
        staying = [post.child for post in self.posts[: config.workers]]
        configure = Configure.to(config)
        why = await _configure(staying, configure)
        if why:
            await _configure(staying, self._configure)
            return why
        self.config, self._configure = config, configure
        await _configure([child for child in staying if child.given is not configure], configure)  # started in between
        self._forget_brokers(before)
        self._remove_workers()
        self._add_workers()
        await self._change_analyzer(before)
        return ""

    async def send_all(self, message: Message) -> None:
        """To every worker."""
        await asyncio.gather(*(post.child.send(message) for post in self._all_posts()))

    async def drain(self, seconds: float) -> bool:
        """Workers answer what is in flight and end, then the analyzer. Returns whether all did so in time."""
        self.draining = True
        end = asyncio.get_running_loop().time() + seconds + LONGER
        in_time = await _end([post.child for post in self._all_posts()], seconds, end)
        if self._analyzer:
            in_time &= await _end([self._analyzer], seconds, end + LONGER / 2)
        return in_time

    async def kill(self) -> None:
        """End everything at once, and wait until it is gone."""
        self.draining = True
        children = [post.child for post in self._all_posts()] + ([self._analyzer] if self._analyzer else [])
        for child in children:
            child.kill()
        await asyncio.gather(*(child.gone.wait() for child in children))

    def counters(self) -> list[Counters]:
        """Of all workers, those that are leaving or have left too."""
        return [post.counters for post in self._all_posts()] + self._retired

    # A Keeper: what happens to children.

    async def started(self, child: Child) -> None:
        """It gets its configuration, and what others have learned of the brokers."""
        self._keep(self._prepare(child), f"configure {child.name}")

    async def on_message(self, child: Child, message: Brokers | Connections | AnalyzerCounts) -> None:
        """Pass brokers on to the other workers; have Overview take the rest."""
        match message:
            case Brokers():
                self._brokers[message.cluster] = message
                others = [post.child for post in self._all_posts() if post.child is not child]
                await asyncio.gather(*(other.send(message) for other in others))
            case Connections():
                self.on_connections(message)
            case AnalyzerCounts():
                self.on_counts(message)

    def ended(self, child: Child, code: int | None) -> None:
        """What it counted as open is open no more; what it had of the rings nobody has."""
        if child.number is None:
            self._detach_reader()
            return
        post = next(post for post in self._all_posts() if post.child is child)
        post.counters.close_open_gauges()
        if code is None and not post.first.done():
            post.first.set_result(f"{child.name} could not be started")
        if self._analyzer:
            self._keep(self._analyzer.send(ForgetWorker(child.number)), "forget")
        if post in self._leaving:
            self._leaving.remove(post)
            for tap in post.tap:
                os.close(tap)
            self._retired.append(post.counters)

    def _all_posts(self) -> list[Post]:
        return [*self.posts, *self._leaving]

    def _add_workers(self) -> None:
        for number in range(len(self.posts), self.config.workers):
            post = self._new_post(number)
            self.posts.append(post)
            self._keep(post.child.keep(), post.child.name)

    def _new_post(self, number: int) -> Post:
        counters = self._retired.pop() if self._retired else Counters.create()
        tap = (create_ring(self.config.analysis.ring_size),) if self._tapped else ()

        def arguments(control: int) -> ChildArguments:
            others = tuple(one.fd for one in self.counters() if one is not counters)
            return ChildArguments(os.getpid(), control, counters.fd, tap, others, number)

        child = Child(self._modules.worker, number, arguments, self)
        return Post(child, counters, tap, asyncio.get_running_loop().create_future())

    def _remove_workers(self) -> None:
        seconds = self.config.timeouts.drain
        leaving, self.posts = self.posts[self.config.workers :], self.posts[: self.config.workers]
        self._leaving.extend(leaving)
        if leaving:
            end = asyncio.get_running_loop().time() + seconds + LONGER
            self._keep(_end([post.child for post in leaving], seconds, end), "fewer workers")

    def _set_analyzer(self) -> None:
        if self.config.analysis.enabled and self._tapped and self._analyzer is None:
            self._analyzer = Child(self._modules.analyzer, None, self._analyzer_arguments, self)
            self._keep(self._analyzer.keep(), "analyzer")

    def _analyzer_arguments(self, control: int) -> ChildArguments:
        return ChildArguments(os.getpid(), control, taps=tuple(tap for post in self.posts for tap in post.tap))

    def _detach_reader(self) -> None:
        for post in self._all_posts():
            for tap in post.tap:
                detach_reader(tap)

    async def _change_analyzer(self, before: Config) -> None:
        other_rings = before.workers != self.config.workers  # which another process inherits
        if self._analyzer is None or not self.config.analysis.enabled or other_rings:
            await self._stop_analyzer()
            self._set_analyzer()
        else:
            await _configure([self._analyzer], self._configure)
        if before.analysis.ring_size != self.config.analysis.ring_size:
            log("warning", "not taken before a restart", path="analysis.ring_size")
        if self.config.analysis.enabled and not self._tapped:
            log("warning", "not taken before a restart", path="analysis.enabled")

    async def _stop_analyzer(self) -> None:
        analyzer, self._analyzer = self._analyzer, None
        if analyzer:
            seconds = self.config.timeouts.drain
            await _end([analyzer], seconds, asyncio.get_running_loop().time() + seconds)

    async def _prepare(self, child: Child) -> None:
        why = await child.configure(self._configure)
        for message in [] if why else list(self._brokers.values()):
            await child.send(message)
        if child is self._analyzer and not self._analyzing.done():
            self._analyzing.set_result(why)
        first = next((post.first for post in self.posts if post.child is child), None)
        if first and not first.done():
            first.set_result(why)
        elif why and not self.draining:
            log("error", "a process cannot do its work", process=child.name, reason=why)
            child.restart()

    def _forget_brokers(self, before: Config) -> None:
        """Of clusters that are others now: what was learned of them may be of another Kafka."""
        same = {cluster.name for cluster in self.config.clusters if cluster in before.clusters}
        self._brokers = {name: order for name, order in self._brokers.items() if name in same}

    def _keep(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Run it beside; a fault of ours in it is the end of all."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error and not self.failure.done():
            self.failure.set_result(f"a fault of kproxy's own ({task.get_name()}): {error!r}")


def _ignore(_: Message) -> None:
    pass


async def _configure(children: list[Child], message: Configure) -> str:
    """Returns "" or why one of them cannot."""
    answers = await asyncio.gather(*(child.configure(message) for child in children))
    return next((why for why in answers if why), "")


async def _end(children: list[Child], seconds: float, end: float) -> bool:
    """Have them drain and exit; at *end*, of the loop's clock, kill those that have not. Returns whether none was killed."""
    for child in children:
        child.stop()
    try:
        async with asyncio.timeout_at(end):
            await asyncio.gather(*(child.send(Drain(seconds)) for child in children))
            await asyncio.gather(*(child.gone.wait() for child in children))
    except TimeoutError:
        for child in children:
            child.kill()
        await asyncio.gather(*(child.gone.wait() for child in children))
        return False
    return True
