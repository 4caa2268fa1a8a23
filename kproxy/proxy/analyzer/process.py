"""The analyzer process: reads the taps of all workers, decodes them, and writes and counts what is in them.

When it is killed, hangs or falls behind, the taps leave out bytes and count them, and traffic goes on. It handles the messages of
ToAnalyzer (messages.py) and sends AnalyzerCounts and AnalyzerSeries once a second.
"""

import asyncio
import gc
import os
import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec

from kproxy.config.structs import Analysis, Traces
from kproxy.errors import UsageError
from kproxy.options import Rotated
from kproxy.output.jsonl import event_line
from kproxy.pipeline.output import Output, Source
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.sink import Report, RotatingFile
from kproxy.proxy import messages
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.page_feed import PageFeed, Past, connect
from kproxy.proxy.analyzer.settling import LogLines, Settlement, cut_off
from kproxy.proxy.analyzer.tap_decoder import TapDecoder
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.logs import EVENTS_LOST
from kproxy.proxy.messages import MESSAGE_DROPPED, Channel
from kproxy.proxy.scheduling import Breaks, PacedLoop
from kproxy.proxy.system_calls import raise_in
from kproxy.proxy.tap.ring import TapReader
from kproxy.schemas.settings import SchemaSources

if TYPE_CHECKING:
    from kproxy.proxy.analyzer.traces import TraceExport

BATCH = 128  # records of one ring before others have their turn; each may hold thousands of frames
UNIT = 16  # records between two looks whether a break is due
WAIT = 0.1  # seconds between looks at the rings: each costs as much as dozens of exchanges, and a worker on this core its caches
BEHIND = (
    1 << 20
)  # bytes of a ring, and at most an eighth of it, that end such a wait; while more wait, the analyzer is behind
SEND_EVERY = 1.0  # seconds
STUCK_S = 3.0  # seconds of CPU on one record, after which its connection is given up
MOST_MEMORY = 4 << 30  # bytes of address space
MOST_MESSAGES = 100  # events for the log that wait to be sent
NICE = 5
WAIT_FOR_SCHEMAS = 0.1  # seconds for a registry's answer to a new id; what comes later is there for the next record
FLUSH_S = 3.0  # longest time that spans take to be exported at the end


def _live_pcapng(file: RotatingFile) -> Output:
    from kproxy.pipeline.pcapng_output import LivePcapng  # noqa: PLC0415 - 2 MB that only captures need

    return LivePcapng(file)


# The files of the analyzer, by the names that their options have below ``analysis`` in the configuration
FILES: dict[str, Callable[[RotatingFile], Output]] = {
    "log": lambda file: LogLines(event_line, file),  # as ``kproxy decode --format jsonl`` writes it
    "capture": _live_pcapng,
}


class Stuck(BaseException):
    """Raised inside of a decode that takes too long; no ``except Exception`` may catch it."""


def rotating_file(options: Rotated, clock: Callable[[], float], report: Report) -> RotatingFile:
    """Make a file with the sizes and ages of the configuration."""
    return RotatingFile(
        Path(options.path),
        most_size=options.most_size,
        most_age=options.most_age,
        keep=options.keep,
        clock=clock,
        report=report,
    )


@dataclass(frozen=True, slots=True)
class File:
    """A file that the configuration asks for, and the output that writes to it."""

    options: Rotated
    file: RotatingFile
    output: Output


class Analyzer:
    """A Run of the pipeline that reads rings and writes files and counts; collects what is sent to the supervisor."""

    def __init__(self, readers: list[TapReader]) -> None:
        self.counts = AnalysisCounts()
        self.messages: deque[messages.LogEvent] = deque(maxlen=MOST_MESSAGES)
        self._messages_lost = 0
        self.files: dict[str, File] = {}  # by the names of FILES
        self._run = Run(Options(contain=(Exception, Stuck)), [self.counts])
        self._readers = readers
        self.taps = [
            TapDecoder(self._run.open_live(f"worker {ring}", self._report_fault)) for ring in range(len(readers))
        ]
        self.settlement = Settlement(readers, [tap.connections for tap in self.taps])
        self.is_configured = False  # nothing is read before that: it would be missing in the files
        self._cut_off = False  # whether the log of the previous analyzer was cut off, see settling.py
        self._faults = [reader.faults for reader in readers]
        self._busy = False
        self._seen = (0, 0.0)  # records taken, and the CPU time (seconds) when that number was new
        sizes = [os.fstat(reader.fd).st_size for reader in readers]
        self._positions = [reader.position for reader in readers]  # when the main thread looked last
        self.starved: Callable[[], int] = lambda: 0
        self._reading = asyncio.Lock()  # one reads at a time, in the order of each ring
        self.spans: dict[str, int] = {}  # how many were exported, dropped and failed, over all exporters
        self._traces: TraceExport | None = None
        self._ending: set[asyncio.Task[None]] = set()  # exporters that send their last spans
        self._page: PageFeed | None = None
        self._past: Past | None = None
        self._past_size = 0
        self._page_path = ""
        self._schemas: SchemaSources | None = None
        self._behind = [min(BEHIND, size // 8) for size in sizes]
        self._most_lag = 0
        self._breaks = Breaks()

    def report(self, event: str, **keys: messages.LogValue) -> None:
        """Add an error to the events for the log. If there are MOST_MESSAGES already, the oldest is dropped and counted."""
        self._messages_lost += len(self.messages) == MOST_MESSAGES
        self.messages.append(messages.LogEvent("error", event, keys))

    def take_messages(self) -> list[messages.LogEvent]:
        """Remove the events for the log and return them; the first one says how many were dropped, if any were."""
        lost, self._messages_lost = self._messages_lost, 0
        taken = [messages.LogEvent("warning", EVENTS_LOST, {"count": lost})] if lost else []
        taken.extend(self.messages)
        self.messages.clear()
        return taken

    def _report_fault(self, number: int, fault: BaseException) -> None:
        reason = type(fault).__name__  # the exception's text may quote traffic
        self.report("analysis of a connection failed", connection=number, reason=reason)

    # Called for the supervisor's messages

    def configure(self, options: Analysis) -> None:
        """Write the configured files; a file whose options have not changed is continued."""
        for name, make in FILES.items():
            wanted: Rotated | None = getattr(options, name)
            existing = self.files.get(name)
            if wanted == (None if existing is None else existing.options):
                continue
            if existing is not None:
                del self.files[name]
                self._run.remove_output(existing.output)
                existing.output.close()
                if existing.output is self.settlement.log:
                    self.settlement.use(None)
            if wanted is not None:
                if name == "log" and not self._cut_off:
                    self._cut_off = True
                    cut_off(Path(wanted.path), self._readers)

                def report(reason: str, path: str = wanted.path) -> None:
                    self.report("file cannot be written", file=path, reason=reason)

                file = rotating_file(wanted, time.monotonic, report)
                output = make(file)
                if isinstance(output, LogLines):
                    self.settlement.use(output)
                self.files[name] = File(wanted, file, output)
                self._run.add_output(output)
                file.is_open()  # the file must exist, or be reported, before traffic comes
        self.is_configured = True

    def show_records(self, sources: SchemaSources | None) -> None:
        """Decode records, by the schemas of these sources, in the decoded log; None: no records. Raises UsageError."""
        if sources != self._schemas:
            self._run.use_schemas(None if sources is None else sources.open(WAIT_FOR_SCHEMAS))
            self._schemas = sources

    def trace(self, options: Traces | None) -> None:
        """Export spans as the configuration asks for; in the event loop. Raises UsageError, and then nothing has changed."""
        before = self._traces
        if options == (None if before is None else before.options):
            return
        made: TraceExport | None = None
        if options is not None:
            from kproxy.proxy.analyzer import traces  # noqa: PLC0415 - 7 MB that few need

            def report(reason: str) -> None:
                self.report("spans cannot be exported", reason=reason)

            made = traces.TraceExport(options, report, self.spans)
        if before is not None:
            self._run.remove_output(before.output)
            ending = asyncio.get_running_loop().create_task(before.close(FLUSH_S), name="end of traces")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        self._traces = made
        if made is not None:
            self._run.add_output(made.output)

    def keep_past(self, most: int) -> None:
        """Keep the last exchanges for a page that comes later, of so many bytes in all; 0: none."""
        if most == self._past_size:
            return
        if self._past is not None:
            self._run.remove_output(self._past)
        self._past, self._past_size = Past(most) if most else None, most
        if self._past is not None:
            self._run.add_output(self._past)

    def feed_page(self, path: str) -> None:
        """Send the last exchanges and those from now on to the live page at this path, and to no other page; "": to none."""
        before = self._end_page()
        same = before if before is not None and path == self._page_path else None
        self._page_path = path
        if path:
            try:
                page = self._page = connect(
                    path, lambda: self._run.clusters, self._left_out, lambda: self.counts.has_failed, same
                )
            except OSError as error:
                self.report("the page gets no exchanges", reason=error.strerror or str(error))
                return
            if self._past is not None and same is None:  # a page that goes on has them already
                self._past.replay(page)
            for ring, tap in enumerate(self.taps):
                page.begin_all(Source(ring + 1, f"worker {ring}"), tap.connections)
            self._run.add_output(page)

    def _left_out(self) -> int:
        """Return how many requests came without becoming an exchange."""
        return sum(sum(tap.connections.left_out.values()) for tap in self.taps)

    def _end_page(self) -> PageFeed | None:
        """Close the feed of the live page and log what it left out; return it."""
        page, self._page = self._page, None
        if page is not None:
            self._run.remove_output(page)
            page.close()
            left_out = page.dropped - page.carried
            if left_out:
                self.messages.append(
                    messages.LogEvent("warning", "the page was too slow for some exchanges", {"count": left_out})
                )
        return page

    async def end_traces(self, seconds: float) -> None:
        """Export the remaining spans, for at most *seconds*."""
        if self._traces is not None:
            await self._traces.close(seconds)
        if self._ending:
            await asyncio.wait(self._ending, timeout=seconds)

    async def forget(self, ring: int) -> None:
        """Read the rest of a dead worker's ring and close its connections; its successor has connections of its own."""
        if 0 <= ring < len(self.taps):
            async with self._reading:
                await self._read_rest(ring)
                with self._watched():
                    self.taps[ring].connections.close_all(time.time_ns())

    # Rings

    def read(self, ring: int) -> int:
        """Decode a batch of one ring; return the number of its records."""
        reader, tap = self._readers[ring], self.taps[ring]
        items = reader.read(BATCH)
        is_filling = any(reader.waiting > most for reader, most in zip(self._readers, self._behind, strict=True))
        if self._page is not None:
            self._page.is_busy = is_filling
        with self._watched():
            for start in range(0, len(items), UNIT):
                tap.decode(items[start : start + UNIT])
                if not is_filling:
                    self._breaks.take_when_due()
            if items:
                self._most_lag = max(self._most_lag, time.time_ns() - items[-1][3])
            if reader.faults != self._faults[ring]:
                self._faults[ring] = reader.faults
                tap.connections.drop_all()  # the writer describes open connections again, and counts what was lost
        return len(items)

    async def _read_rest(self, ring: int) -> None:
        """Decode what is in a ring now, not what is written while this runs. The event loop has a turn after each batch."""
        reader = self._readers[ring]
        end = reader.position + reader.waiting
        while reader.position < end and self.read(ring):
            await asyncio.sleep(0)

    def rest(self, *, idle: bool) -> bool:
        """Have the workers ring once bytes wait: any with *idle*, else so many that a ring fills. Return False if they do now."""
        return all(reader.rest(1 if idle else most) for reader, most in zip(self._readers, self._behind, strict=True))

    def is_far_behind(self) -> bool:
        """Return whether a ring is filling up, or has waiting bytes and none were read since the last call."""
        before, self._positions = self._positions, [reader.position for reader in self._readers]
        return any(
            reader.waiting > most or (reader.waiting > 0 and reader.position == position)
            for reader, most, position in zip(self._readers, self._behind, before, strict=True)
        )

    async def read_all(self) -> int:
        """Decode a batch of each ring; return the number of records of the largest batch."""
        async with self._reading:
            return max(map(self.read, range(len(self._readers))), default=0)

    async def finish(self) -> None:
        """Decode the rest of the rings, and close the files."""
        for ring, (reader, tap) in enumerate(zip(self._readers, self.taps, strict=True)):
            await self._read_rest(ring)
            reader.detach()
            with self._watched():
                tap.connections.close_all(time.time_ns())
        self._run.close()

    def flush(self) -> None:
        """Write what the files have buffered."""
        self._run.flush()
        if self._page is not None and self._page.has_ended:
            self.feed_page(self._page_path if self._page.is_too_slow else "")

    def message(self) -> messages.AnalyzerCounts:
        """Return the counts for the supervisor."""
        self.settlement.publish()
        lag, self._most_lag = self._most_lag, 0
        connections = [tap.connections for tap in self.taps]
        faults: Counter[str] = Counter()
        for one in connections:
            faults.update(one.faults)
        return msgspec.structs.replace(
            self.counts.message(time.time_ns()),
            faults=dict(faults),
            left_out=self.settlement.left_out(),
            given_up=sum(one.given_up for one in connections),
            ring_faults=sum(reader.faults for reader in self._readers),
            connections=sum(map(len, connections)),
            waiting_bytes=sum(reader.waiting for reader in self._readers),
            most_lag_ns=lag,
            starved=self.starved(),
            spans=dict(self.spans),
            outputs={
                name: messages.OutputCounts(one.file.written, one.file.dropped, one.file.failures)
                for name, one in self.files.items()
            },
        )

    def series(self) -> list[messages.AnalyzerSeries]:
        """Return the numbers by names from traffic, for the supervisor."""
        self.counts.age(time.monotonic())
        return self.counts.series()

    # A record that takes too long is given up

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Let ``watch`` raise Stuck within the block; a connection that was decoding then is given up."""
        self._busy = True
        try:
            yield
        except Stuck:  # it came between two records: there is nothing to give up
            pass
        finally:
            self._busy = False

    def watch(self, thread: Thread) -> None:
        """Raise Stuck in *thread* if it decodes one record for too long. Called several times a second in another thread."""
        taken, cpu = sum(tap.taken for tap in self.taps), time.process_time()
        before, since = self._seen
        if taken != before or not self._busy:
            self._seen = taken, cpu
        elif cpu - since >= STUCK_S:
            self._seen = taken, cpu
            raise_in(thread, Stuck)


class Doorbell:
    """Wakes the analyzer: workers ring it through *fd*, an eventfd (TapReader.rest)."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self.rung = asyncio.Event()
        self.stopped = False
        self._loop.add_reader(fd, self._on_ring)

    def _on_ring(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        self.rung.set()

    def stop(self) -> None:
        """Wake the analyzer to end."""
        self.stopped = True
        self.rung.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it rings, or for so many seconds."""
        timer = None if seconds is None else self._loop.call_later(seconds, self.rung.set)
        await self.rung.wait()
        self.rung.clear()
        if timer is not None:
            timer.cancel()


async def _read_until_stopped(analyzer: Analyzer, doorbell: Doorbell) -> None:
    """Read the rings: without pause while much waits, some times a second while there is traffic; sleep while there is none."""
    while not doorbell.stopped:
        if not analyzer.is_configured:
            await doorbell.wait(None)
            continue
        most = await analyzer.read_all()
        if most == 0:
            analyzer.flush()
        if most >= BATCH or not analyzer.rest(idle=most == 0):
            await asyncio.sleep(0)
        else:
            await doorbell.wait(WAIT if most else None)


async def _send(analyzer: Analyzer, channel: Channel[messages.ToAnalyzer]) -> None:
    """Send counts and log events to the supervisor once a second."""
    while True:
        await asyncio.sleep(SEND_EVERY)
        analyzer.flush()
        await _send_all(analyzer, channel)


async def _send_all(analyzer: Analyzer, channel: Channel[messages.ToAnalyzer]) -> None:
    await channel.send(analyzer.message())
    for series in analyzer.series():
        await channel.send(series)
    for event in analyzer.take_messages():
        await channel.send(event)


async def _receive(
    analyzer: Analyzer, channel: Channel[messages.ToAnalyzer], doorbell: Doorbell, on_end: Callable[[], None]
) -> None:
    """Handle the supervisor's messages until it sends Drain or is gone."""
    async for message in channel:
        match message:
            case messages.Configure():
                await channel.send(_configure(analyzer, message))
                doorbell.rung.set()
            case messages.ForgetWorker(worker):
                await analyzer.forget(worker)
            case messages.FeedPage(path, past):
                analyzer.keep_past(past)
                analyzer.feed_page(path)
            case messages.Drain():
                break
    on_end()
    doorbell.stop()


def _configure(analyzer: Analyzer, message: messages.Configure) -> messages.Ready | messages.Failed:
    try:
        config = message.decode()
        analyzer.trace(config.traces)
        is_shown = config.analysis.records and config.analysis.log is not None
        analyzer.show_records(config.schemas if is_shown else None)
        analyzer.configure(config.analysis)
        analyzer.counts.limit(config.metrics.series, config.metrics.idle)
    except (msgspec.MsgspecError, UsageError) as error:
        return messages.Failed.because(error)
    return messages.Ready()


async def _run(analyzer: Analyzer, control: int, bell: int, on_end: Callable[[], None]) -> None:
    def on_malformed(reason: str) -> None:
        analyzer.report("a message of the supervisor cannot be decoded", reason=reason)

    def on_too_long(reason: str) -> None:
        analyzer.report(MESSAGE_DROPPED, reason=reason)

    channel: Channel[messages.ToAnalyzer] = await Channel.open(control, messages.ToAnalyzer, on_malformed, on_too_long)
    doorbell = Doorbell(bell)
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_send(analyzer, channel), name="send")
        tasks.create_task(_receive(analyzer, channel, doorbell, on_end), name="receive")
        await _read_until_stopped(analyzer, doorbell)
        sending.cancel()
    await analyzer.finish()
    await analyzer.end_traces(FLUSH_S)
    await _send_all(analyzer, channel)
    await channel.send(messages.Drained())
    channel.close()


def prepare() -> None:
    """Make what every analyzer uses; in the supervisor, before analyzers are forked."""
    messages.decoder(messages.ToAnalyzer)


def main(arguments: ChildArguments) -> None:
    """Analyse until the supervisor sends Drain, or is gone."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    readers = [TapReader(fd) for fd in arguments.taps]
    analyzer = Analyzer(readers)
    gc.collect()
    gc.freeze()  # the collector skips the objects made so far, which live to the end
    gc.set_threshold(20_000, 20, 20)
    for reader in readers:
        reader.attach()
    paced = PacedLoop(analyzer.is_far_behind, analyzer.watch)
    analyzer.starved = lambda: paced.starved
    paced.run(_run(analyzer, arguments.control, arguments.doorbell, paced.end_soon))
