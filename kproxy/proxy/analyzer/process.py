"""The analyzer: a process that reads the taps of all workers and says, writes and counts what is in them.

It may be killed, hang or fall behind: the taps then drop and count, and traffic does not notice. It handles the messages of
ToAnalyzer (messages.py) and sends AnalyzerCounts once a second.
"""

import asyncio
import gc
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec

from kproxy.config import Analysis
from kproxy.output.bodies import read_bodies
from kproxy.output.opening import Opener
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.outputs import AnalysisOutput, Capture, DecodedLog
from kproxy.proxy.analyzer.tapped_sessions import Clusters, Key, Stuck, TappedSessions
from kproxy.proxy.channel import Channel
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.messages import (
    AnalyzerCounts,
    Configure,
    Drain,
    Drained,
    Failed,
    ForgetWorker,
    LogEvent,
    OutputCounts,
    Ready,
    ToAnalyzer,
)
from kproxy.proxy.tap.ring import TapReader
from kproxy.session import Event, Exchange, Limits

BATCH = 32  # records of one ring before others have their turn; each may hold thousands of frames
SHORTEST_WAIT, LONGER_WAIT, LONGEST_WAIT = (
    0.001,
    0.004,
    0.02,
)  # seconds between looks at the rings, each of which costs CPU
MANY = 32  # records at a look, after which the next one comes soon; fewer may wait longer, and none the longest
FEW = 65_536  # bytes of a ring that may wait
SEND_EVERY = 1.0  # seconds
STUCK_TICKS = 3  # seconds of CPU on one record, after which its connection is given up
SILENT = 3_600 * 10**9  # ns after which a connection that said nothing is closed: brokers do so after ten minutes
MOST_MEMORY = 4 << 30  # bytes of address space
MOST_MESSAGES = 100  # events for the log that wait to be said
NICE = 5


class Analyzer:
    """Rings in; files, counts and events for the log out."""

    def __init__(self, readers: list[TapReader]) -> None:
        self.counts = AnalysisCounts()
        self.messages: deque[LogEvent] = deque(maxlen=MOST_MESSAGES)
        self.outputs: dict[str, AnalysisOutput] = {}
        self._options = Analysis()
        self._opener = Opener()
        self._readers = readers
        clusters = Clusters()
        self.sessions = [TappedSessions(ring, clusters, self, Limits()) for ring in range(len(readers))]
        self._faults = [reader.faults for reader in readers]
        self._busy = False
        self._seen = (0, 0)  # records taken at the last tick, and for how many ticks no more
        self._most_lag = 0

    # Listener

    def said(self, key: Key, events: list[Event]) -> None:
        """See tapped_sessions.Listener."""
        outputs, log = self.outputs, "log" in self.outputs
        for event in events:
            bodies = None
            if log:
                self._opener.learn(event)
                if isinstance(event, Exchange):
                    bodies = read_bodies(event, self._opener)
            self.counts.take(event, bodies)
            for output in outputs.values():
                output.take(key, event, bodies)

    def closed(self, key: Key, at: int, fault: BaseException | None) -> None:
        """See tapped_sessions.Listener."""
        if fault is not None:
            self.messages.append(
                LogEvent(
                    "error",
                    "analysis of a connection failed",
                    {"connection": key[1], "reason": type(fault).__name__},  # the exception's text may quote traffic
                )
            )
        for output in self.outputs.values():
            output.closed(key, at)

    # The supervisor's

    def configure(self, options: Analysis) -> None:
        """Write what the configuration asks for; a file that is as it was goes on."""
        for name, before, after, make in (
            ("log", self._options.log, options.log, DecodedLog),
            ("capture", self._options.capture, options.capture, Capture),
        ):
            if before == after:
                continue
            if name in self.outputs:
                self.outputs.pop(name).file.close()
            if after is not None:
                output = self.outputs[name] = make(after, time.monotonic, self._reporter(after.path))
                output.file.is_open()  # so that it is there, or said not to be, before traffic is
        self._options = options

    def _reporter(self, path: str) -> Callable[[str], None]:
        def report(reason: str) -> None:
            self.messages.append(LogEvent("error", "file cannot be written", {"file": path, "reason": reason}))

        return report

    def forget(self, ring: int) -> None:
        """A worker died: nothing more comes of its connections; its successor's are others."""
        if 0 <= ring < len(self.sessions):
            self.read_rest(ring)
            with self._watched():
                self.sessions[ring].close(time.time_ns())

    # Rings

    def read(self, ring: int) -> int:
        """Analyse a batch of one ring; how many records there were."""
        reader, sessions = self._readers[ring], self.sessions[ring]
        items = reader.read(BATCH)
        with self._watched():
            if items:
                sessions.take(items)
                self._most_lag = max(self._most_lag, time.time_ns() - sessions.last_at)
            if reader.faults != self._faults[ring]:
                self._faults[ring] = reader.faults
                sessions.close(time.time_ns())  # the writer tells anew what is open
        return len(items)

    def read_rest(self, ring: int) -> None:
        """Analyse what is in a ring now; not what a worker writes meanwhile."""
        reader = self._readers[ring]
        end = reader.position + reader.waiting
        while reader.position < end and self.read(ring):
            pass

    @property
    def is_behind(self) -> bool:
        """Whether some ring has so much that it is read at once."""
        return any(reader.waiting > FEW for reader in self._readers)

    def read_all(self) -> int:
        """A batch of each ring; the largest."""
        return max(map(self.read, range(len(self._readers))), default=0)

    def finish(self) -> None:
        """Analyse what is left, and close the files."""
        for ring, (reader, sessions) in enumerate(zip(self._readers, self.sessions, strict=True)):
            self.read_rest(ring)
            reader.detach()
            with self._watched():
                sessions.close(time.time_ns())
        for output in self.outputs.values():
            output.file.close()

    def flush(self) -> None:
        """Write what files hold back."""
        for output in self.outputs.values():
            output.file.flush()

    def message(self) -> AnalyzerCounts:
        """The counts for the supervisor; closes connections on which nothing has come for SILENT."""
        lag, self._most_lag = self._most_lag, 0
        faults: dict[str, int] = {}
        for sessions in self.sessions:
            for name, count in sessions.faults.items():
                faults[name] = faults.get(name, 0) + count
            sessions.close_silent(sessions.last_at - SILENT)
        return msgspec.structs.replace(
            self.counts.message(time.time_ns()),
            faults=faults,
            given_up=sum(one.given_up for one in self.sessions),
            lost_bytes=sum(one.lost_bytes for one in self.sessions),
            ring_faults=sum(reader.faults for reader in self._readers),
            connections=sum(map(len, self.sessions)),
            waiting_bytes=sum(reader.waiting for reader in self._readers),
            most_lag_ns=lag,
            outputs={
                name: OutputCounts(one.file.written, one.file.dropped, one.file.failures)
                for name, one in self.outputs.items()
            },
        )

    # One record may take long, but not for ever

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        except Stuck:  # between two records: there is nothing to be given up
            pass
        finally:
            self._busy = False

    def tick(self, _signal: int, _frame: FrameType | None) -> None:
        """Once a second of CPU: end the analysis of a record that is still the same."""
        taken = sum(sessions.taken for sessions in self.sessions)
        before, ticks = self._seen
        self._seen = (taken, ticks + 1 if taken == before and self._busy else 0)
        if self._seen[1] >= STUCK_TICKS:
            self._seen = (taken, 0)
            raise Stuck


async def _look(analyzer: Analyzer, stop: asyncio.Event) -> None:
    """Read the rings until told to stop: at once while there is more, else after a rest that grows."""
    wait = SHORTEST_WAIT
    while not stop.is_set():
        most = analyzer.read_all()
        if most and analyzer.is_behind:
            await asyncio.sleep(0)
            continue
        if not most and wait == LONGEST_WAIT:
            analyzer.flush()
        wait = SHORTEST_WAIT if most >= MANY else min(2 * wait, LONGER_WAIT if most else LONGEST_WAIT)
        await asyncio.sleep(wait)


async def _send(analyzer: Analyzer, channel: Channel[ToAnalyzer], stop: asyncio.Event) -> None:
    """Send counts and log events to the supervisor once a second."""
    while not stop.is_set():
        await asyncio.sleep(SEND_EVERY)
        analyzer.flush()
        await channel.send(analyzer.message())
        while analyzer.messages:
            await channel.send(analyzer.messages.popleft())


async def _receive(analyzer: Analyzer, channel: Channel[ToAnalyzer], stop: asyncio.Event) -> None:
    """Handle the supervisor's messages until it sends Drain or is gone."""
    async for message in channel:
        match message:
            case Configure():
                await channel.send(_configure(analyzer, message))
            case ForgetWorker(worker):
                analyzer.forget(worker)
            case Drain():
                break
    stop.set()


def _configure(analyzer: Analyzer, message: Configure) -> Ready | Failed:
    try:
        analyzer.configure(message.decode().analysis)
    except msgspec.MsgspecError as error:
        return Failed(str(error))
    return Ready()


async def _run(analyzer: Analyzer, control: int) -> None:
    def on_malformed(reason: str) -> None:
        analyzer.messages.append(LogEvent("error", "a message of the supervisor cannot be decoded", {"reason": reason}))

    channel: Channel[ToAnalyzer] = await Channel.open(control, ToAnalyzer, on_malformed)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_send(analyzer, channel, stop), name="send")
        tasks.create_task(_receive(analyzer, channel, stop), name="receive")
        await _look(analyzer, stop)
        sending.cancel()
    analyzer.finish()
    await channel.send(analyzer.message())
    await channel.send(Drained())
    channel.close()


def main(arguments: ChildArguments) -> None:
    """Analyse until the supervisor sends Drain, or is gone."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    readers = [TapReader(fd) for fd in arguments.taps]
    analyzer = Analyzer(readers)
    signal.signal(signal.SIGVTALRM, analyzer.tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0, 1.0)
    gc.collect()
    gc.freeze()  # what is there now stays; only what traffic makes is looked at
    gc.set_threshold(20_000, 20, 20)
    for reader in readers:
        reader.attach()
    asyncio.run(_run(analyzer, arguments.control))
