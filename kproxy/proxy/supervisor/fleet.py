"""Fleet: the workers and the analyzer together: their shared memory, their configuration, and the brokers that workers learn.

Questions is what the supervisor asks workers (ListConnections, ShowStop, Decide, UseBreakpoints); the answers arrive in parts.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from kproxy.config.structs import Config
from kproxy.proxy import messages
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.logs import log
from kproxy.proxy.messages import Connections, StopAnswer
from kproxy.proxy.shared_state import LearnedSets, SharedCounts
from kproxy.proxy.supervisor.child import Child, ProcessEnded
from kproxy.proxy.supervisor.processes import ANALYZER, WORKER
from kproxy.proxy.tap.counters import Counters, SharedLimits
from kproxy.proxy.tap.ring import await_reader, create_ring, detach_reader, reader_position

Part = TypeVar("Part", Connections, StopAnswer)
Listener: TypeAlias = Callable[[int | None, messages.News | None], None]


class Question(Generic[Part]):
    """A question to one worker. *answered* becomes True with the last part, False if the worker ends before that."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def is_answered(self, seconds: float) -> bool:
        """Wait for the whole answer. Raises TimeoutError after so many seconds."""
        return await asyncio.wait_for(self.answered, seconds)


class Questions:
    """The questions that are being asked."""

    def __init__(self) -> None:
        self._last_number = 0
        self._open: dict[tuple[int, int], Question[Connections] | Question[StopAnswer]] = {}  # by worker and number

    @contextmanager
    def ask(self, workers: Sequence[int], part: type[Part]) -> Iterator[tuple[int, list[Question[Part]]]]:
        """Return a new number and, for each worker, its question under that number; answers count within the block."""
        self._last_number += 1
        number = self._last_number
        questions: list[Question[Part]] = [Question() for _ in workers]
        for worker, question in zip(workers, questions, strict=True):
            self._open[worker, number] = question
        try:
            yield number, questions
        finally:
            for worker in workers:
                del self._open[worker, number]

    def note(self, worker: int, part: Connections | StopAnswer) -> None:
        """Add a part to the answer of a worker."""
        question = self._open.get((worker, part.question))
        if question is not None and not question.answered.done():
            question.parts.append(part)  # type: ignore[arg-type]  # a question has answers of one kind
            if not part.more:
                question.answered.set_result(True)

    def end(self, worker: int) -> None:
        for (its_worker, _), question in self._open.items():
            if its_worker == worker and not question.answered.done():
                question.answered.set_result(False)


PAGE_NEEDS = ("duckdb", "pyarrow")


def is_page_installed() -> bool:
    return all(find_spec(name) is not None for name in PAGE_NEEDS)


def kept_for_page(config: Config) -> int:
    """Return how many bytes of the last exchanges the analyzer keeps for a live page that is not there yet."""
    return config.page.past if is_page_installed() else 0


ANALYZER_START_S = 3.0  # longest wait for the analyzer before the fleet counts as started
# How long a worker may go on after its time to drain until it is killed; the analyzer half of that longer
DRAIN_GRACE_S = 0.5


class Modules(NamedTuple):
    """The modules that run as worker and as analyzer."""

    worker: str = WORKER
    analyzer: str = ANALYZER


OURS = Modules()


class WorkerSlot(NamedTuple):
    """A worker, and the memory that it shares with supervisor and analyzer, which outlives its process."""

    child: Child
    counters: Counters
    # File descriptor of the tap ring; () if the run was started without analysis, as a ring costs memory
    tap: tuple[int, ...]
    first: asyncio.Future[str]  # about the first process: "" once it uses its configuration, or why it cannot


class Fleet:
    """All child processes."""

    def __init__(self, config: Config, modules: Modules = OURS) -> None:
        self.config = config
        self._configure = messages.Configure.to(config)
        self.draining = False
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why the run must end
        self.questions = Questions()
        self.listeners: list[Listener] = []  # see tell
        self.breakpoints: messages.UseBreakpoints | None = None  # for workers that start later
        self.feed_page: messages.FeedPage | None = None  # for an analyzer that starts later
        self.slots: list[WorkerSlot] = []
        self._modules = modules
        self._tapped = config.analysis.enabled
        self._doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if self._tapped else -1
        self._leaving: list[WorkerSlot] = []  # draining: the configuration has fewer workers now
        self._retired: list[Counters] = []  # of workers that are gone: their counts are still part of the totals
        self._analyzer: Child | None = None
        self._brokers: dict[str, messages.Brokers] = {}
        self._learned = LearnedSets()
        self._keys: dict[str, messages.KnownKeys] = {}
        self._limits = SharedLimits.create()
        self.counts = SharedCounts.create()
        self._tasks: set[asyncio.Task[None]] = set()
        self._analyzing: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._serving = False
        self._hung = {"worker": 0, "analyzer": 0}  # processes that were killed as they hung, of children that are gone

    async def start(self) -> str:
        """Start everything. Return "" once every worker is ready, or why the first one cannot be."""
        self._add_workers()
        self._set_analyzer()
        for first in asyncio.as_completed([slot.first for slot in self.slots]):
            why = await first
            if why:
                return why
        if self._analyzer:  # without it traffic would be missing in the log; but clients do not wait long
            await asyncio.wait([self._analyzing], timeout=ANALYZER_START_S)
        self._serving = True
        return ""

    async def change(self, config: Config, reload_filters: bool = False) -> str:
        """Have all workers use another configuration. If one cannot, all go back to the previous one. Return "" or why.

        *reload_filters*: the workers load the modules of filters again.
        """
        before = self.config
        staying = [slot.child for slot in self.slots[: config.workers]]
        configure = messages.Configure.to(config, reload_filters)
        why = await _configure(staying, configure)
        if why:
            await _configure(staying, self._configure)
            return why
        self.config, self._configure = config, configure
        started_meanwhile = [child for child in staying if child.last_configure is not configure]
        await _configure(started_meanwhile, configure)
        if not config.page.edits:
            self.breakpoints = None
        self._forget_brokers(before)
        self._remove_workers()
        self._add_workers()
        await self._change_analyzer(before)
        return ""

    async def send_all(self, message: messages.Message) -> None:
        await asyncio.gather(*(slot.child.send(message) for slot in self._all_slots()))

    async def drain(self, seconds: float) -> bool:
        """Drain the workers, then the analyzer; kill those that are late. Return whether all exited in time."""
        self.draining = True
        end = asyncio.get_running_loop().time() + seconds + DRAIN_GRACE_S
        in_time = await _end([slot.child for slot in self._all_slots()], seconds, end)
        if self._analyzer:
            in_time &= await _end([self._analyzer], seconds, end + DRAIN_GRACE_S / 2)
        return in_time

    async def kill(self) -> None:
        """Kill all processes and wait until they are gone."""
        self.draining = True
        children = [slot.child for slot in self._all_slots()] + ([self._analyzer] if self._analyzer else [])
        for child in children:
            child.kill()
        await asyncio.gather(*(child.ended_for_good.wait() for child in children))

    async def feed(self, message: messages.FeedPage) -> None:
        """Have this and later analyzers feed a live page, or none."""
        self.feed_page = message if message.path or message.past else None
        if self._analyzer is not None:
            await self._analyzer.send(message)

    def counters(self) -> list[Counters]:
        """Return the counters of all workers, including those that are leaving or gone."""
        return [slot.counters for slot in self._all_slots()] + self._retired

    def hung(self) -> dict[str, int]:
        """Return how many processes were killed as they hung, by kind."""
        analyzer = self._analyzer.hung if self._analyzer else 0
        workers = sum(slot.child.hung for slot in self._all_slots())
        return {"worker": self._hung["worker"] + workers, "analyzer": self._hung["analyzer"] + analyzer}

    # Called by a Child

    async def started(self, child: Child) -> None:
        """Send a new process its configuration; a worker also what other workers have learned, and the breakpoints."""
        self._start_task(self._prepare(child), f"configure {child.name}")

    async def on_message(self, child: Child, message: messages.ToFleet) -> None:
        """Pass what a worker has learned on to the other workers, answers to their questions, and all else to the listeners."""
        match message:
            case messages.Brokers():
                self._brokers[message.cluster] = message
                await self._send_others(child, message)
            case messages.Learned():
                self._learned.receive(message)
                await self._send_others(child, message)
            case messages.KnownKeys():
                self._keys[message.cluster] = message
                await self._send_others(child, message)
            case messages.Connections() | messages.StopAnswer():
                if child.number is not None:
                    self.questions.note(child.number, message)
            case _:
                self.tell(child.number, message)

    def tell(self, worker: int | None, message: messages.News | None) -> None:
        """Pass a message of a worker, or of the analyzer (None), to all listeners; None: its process has ended."""
        for listener in self.listeners:
            listener(worker, message)

    async def _send_others(self, child: Child, message: messages.Message) -> None:
        others = [slot.child for slot in self._all_slots() if slot.child is not child]
        await asyncio.gather(*(other.send(message) for other in others))

    def ended(self, child: Child, code: int | None) -> None:
        """Clean up after a process that ended: its open connections, its reading of the rings, its slot."""
        self.tell(child.number, None)
        if child.number is None:
            if child is self._analyzer and not self.draining:
                self._await_reader()
                return
            for tap in (tap for slot in self._all_slots() for tap in slot.tap):
                detach_reader(tap)
            return
        slot = next(slot for slot in self._all_slots() if slot.child is child)
        self.questions.end(child.number)
        self._limits.release_all_of(slot.counters)
        slot.counters.close_open_gauges()
        if code is None and not slot.first.done():
            slot.first.set_result(f"{child.name} could not be started")
        if self._analyzer:
            self._start_task(self._analyzer.send(messages.ForgetWorker(child.number)), "forget")
        if slot in self._leaving:
            self._leaving.remove(slot)
            self._hung["worker"] += child.hung
            for tap in slot.tap:
                os.close(tap)
            self._retired.append(slot.counters)

    def _all_slots(self) -> list[WorkerSlot]:
        return [*self.slots, *self._leaving]

    def _add_workers(self) -> None:
        for number in range(len(self.slots), self.config.workers):
            self.slots.append(self._new_slot(number))
            self._start_task(self.slots[-1].child.run(), self.slots[-1].child.name)

    def _new_slot(self, number: int) -> WorkerSlot:
        counters = self._retired.pop() if self._retired else Counters.create()
        tap = (create_ring(self.config.analysis.ring_size),) if self._tapped else ()

        def arguments(control: int, stack: int) -> ChildArguments:
            return ChildArguments(
                os.getpid(), control, counters.fd, tap, self._limits.fd, number, self.counts.fd, stack, self._doorbell
            )

        child = Child(self._modules.worker, number, arguments, self)
        return WorkerSlot(child, counters, tap, asyncio.get_running_loop().create_future())

    def _remove_workers(self) -> None:
        seconds = self.config.timeouts.drain
        leaving, self.slots = self.slots[self.config.workers :], self.slots[: self.config.workers]
        self._leaving.extend(leaving)
        if leaving:
            end = asyncio.get_running_loop().time() + seconds + DRAIN_GRACE_S
            self._start_task(_end([slot.child for slot in leaving], seconds, end), "fewer workers")

    def _set_analyzer(self) -> None:
        if self.config.analysis.enabled and self._tapped and self._analyzer is None:

            def arguments(control: int, stack: int) -> ChildArguments:
                return ChildArguments(os.getpid(), control, taps=self._taps(), stack=stack, doorbell=self._doorbell)

            def read_so_far() -> list[int]:
                return [reader_position(tap) for tap in self._taps()]

            self._analyzer = Child(self._modules.analyzer, None, arguments, self, read_so_far)
            self._await_reader()
            self._start_task(self._analyzer.run(), "analyzer")

    def _taps(self) -> tuple[int, ...]:
        return tuple(tap for slot in self.slots for tap in slot.tap)

    def _await_reader(self) -> None:
        """Have the workers write for the analyzer that is being started."""
        for tap in self._taps():
            await_reader(tap)

    async def _change_analyzer(self, before: Config) -> None:
        """Stop, start or configure the analyzer, as the new configuration asks."""
        other_rings = before.workers != self.config.workers  # another process has to inherit them
        if self._analyzer is None or not self.config.analysis.enabled or other_rings:
            await self._stop_analyzer()
            self._set_analyzer()
        else:
            await _configure([self._analyzer], self._configure)
        if before.analysis.ring_size != self.config.analysis.ring_size:
            log("warning", "not used before a restart", path="analysis.ring_size")
        if self.config.analysis.enabled and not self._tapped:
            log("warning", "not used before a restart", path="analysis.enabled")

    async def _stop_analyzer(self) -> None:
        analyzer, self._analyzer = self._analyzer, None
        if analyzer:
            seconds = self.config.timeouts.drain
            await _end([analyzer], seconds, asyncio.get_running_loop().time() + seconds)
            self._hung["analyzer"] += analyzer.hung

    async def _prepare(self, child: Child) -> None:
        """Configure a new process. Send a worker what others have learned and the breakpoints, an analyzer the page to feed."""
        why = await child.configure(self._configure)
        if not why and child.number is not None:
            breakpoints = [self.breakpoints] if self.breakpoints is not None else []
            known = [*self._brokers.values(), *self._keys.values(), *self._learned.messages()]
            for message in [*known, *breakpoints]:
                await child.send(message)
        if not why and child is self._analyzer and self.feed_page is not None:
            await child.send(self.feed_page)
        if child is self._analyzer and not self._analyzing.done():
            self._analyzing.set_result(why)
        first = next((slot.first for slot in self.slots if slot.child is child), None)
        if first and not first.done():
            first.set_result(why)
        elif why and not self.draining and not isinstance(why, ProcessEnded):  # a process that ended is started again
            log("error", "a process cannot use its configuration", process=child.name, reason=why)
            child.restart()

    def _forget_brokers(self, before: Config) -> None:
        """Forget the brokers of clusters whose configuration has changed: they may be another Kafka's."""
        same = {cluster.name for cluster in self.config.clusters if cluster in before.clusters}
        self._brokers = {name: brokers for name, brokers in self._brokers.items() if name in same}
        self._learned.forget_all_but(cluster.name for cluster in self.config.clusters)
        self._keys = {one.name: self._keys[one.name] for one in self.config.clusters if one.name in self._keys}

    def _start_task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Run a coroutine as a task; an exception in it ends the run."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)

        def finished(_: object) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error and not self.failure.done():
                self.failure.set_result(f"a fault of kproxy's own ({name}): {error!r}")

        task.add_done_callback(finished)


async def _configure(children: list[Child], message: messages.Configure) -> str:
    """Have all children use a configuration. Return "" or why one of them cannot."""
    answers = await asyncio.gather(*(child.configure(message) for child in children))
    return next((why for why in answers if why), "")


async def _end(children: list[Child], seconds: float, end: float) -> bool:
    """Have processes drain and exit; at *end* (loop time) kill the rest. Return whether none was killed."""
    for child in children:
        child.stop()
    try:
        async with asyncio.timeout_at(end):
            await asyncio.gather(*(child.send(messages.Drain(seconds)) for child in children))
            await asyncio.gather(*(child.ended_for_good.wait() for child in children))
    except TimeoutError:
        for child in children:
            child.kill()
        await asyncio.gather(*(child.ended_for_good.wait() for child in children))
        return False
    return True
