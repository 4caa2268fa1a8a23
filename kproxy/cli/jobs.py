"""``kproxy decode --jobs``: decode one capture in several processes, with the output of one, to the byte.

    decode_in_parts   the parent: forks a process for each task, writes their lines in the order of their positions, answers
                      what they ask
    _Task             a child: decodes the part of the capture that its Division gives it

A task sends the parent a _Message with its progress, new facts and lines, whether it waits for an answer, and at the end its
_Result; or the text of the error that ended it. The parent answers with the progress of the other tasks and their facts.

A line is written once every task has passed its position. The lines kept until then are bounded: if a task is more than
MOST_KEPT bytes of lines ahead, the parent does not read from it until the others have caught up. The task that is furthest
behind is always read and answered, so the tasks cannot block each other.

If a task fails, the parent decodes the capture again by itself, and skips the bytes that are already written. So errors are
reported as without --jobs, and a capture that cannot be divided (see kproxy.pipeline.division) only costs time.
"""

import gc
import os
import signal
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from operator import itemgetter
from types import FrameType
from typing import Any, TypeAlias

from kproxy.capture import Capture, MergedCapture
from kproxy.output.bodies import Bodies
from kproxy.pipeline.decoded_log import DecodedLog, MergedLog
from kproxy.pipeline.division import HEAD, CannotDivide, Division, Fact
from kproxy.pipeline.inputs import Files
from kproxy.pipeline.line_output import Lines
from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Part, Run
from kproxy.pipeline.summary import Summary
from kproxy.session import Event

BLOCK = 256 * 1024  # bytes of lines in a message
MOST_KEPT = 32 * 1024 * 1024  # bytes of lines of a task that is ahead
END = 1 << 62  # a position beyond all
_Line: TypeAlias = tuple[int, int, bytes]  # its position, the time of its event, and itself
_Answer: TypeAlias = tuple[int, list[Fact]]
_position = itemgetter(0)  # of a line


class Progress:
    """How far a file is decoded, for a progress bar."""

    position = 0  # bytes


def decode_in_parts(
    run: Run, files: Files, jobs: int, shown: Progress, advance: Callable[[], None], *, head: int = HEAD
) -> bool:
    """Decode captures in *jobs* processes to the outputs of *run*; an interrupt ends it as it does ``run.read``.

    Args:
        shown: is kept up to date for a progress bar.
        advance: called after each message.
        head: see Division.

    Returns: False if ``run.read`` has to decode it instead; the lines already written are skipped then.
    """
    lines = [output for output in run.outputs if isinstance(output, Lines)]
    if len(lines) != 1 or not all(isinstance(output, Lines | Summary) for output in run.outputs):
        return False
    parent = _Parent(run, lines[0])
    collects = gc.isenabled()
    gc.disable()  # what the parent keeps has no cycles
    try:
        parent.start(files, jobs, head)
        with _interrupts(parent.interrupt):
            parent.collect(shown, advance)
    except (OSError, EOFError):  # no memory for another process, or one was killed
        parent.failed = True
    finally:
        parent.stop()
        if collects:
            gc.enable()
    if parent.failed:
        lines[0].skip(parent.written)
    else:
        parent.finish()
    return not parent.failed


@contextmanager
def _interrupts(call: Callable[[], None]) -> Iterator[None]:
    """Call *call* at each Ctrl-C while the block runs: an exception could come in the middle of a message."""
    before = signal.signal(signal.SIGINT, lambda number, frame: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class _Result:
    """The counts of a task."""

    summary: Summary
    notes: list[tuple[int, str]]  # of the condition, by position
    part: Part


@dataclass(slots=True)
class _Message:
    """A message from a task to the parent."""

    progress: int  # everything up to this position has been sent
    read: int  # bytes of the file
    facts: list[Fact]
    lines: list[_Line]
    asks: bool = False
    result: _Result | None = None


@dataclass(slots=True, eq=False)
class _Child:
    """A task, in the parent."""

    process: BaseProcess
    pipe: Connection
    progress: int = 0
    asks: bool = False
    kept: list[_Line] = field(default_factory=list)  # to be written
    kept_size: int = 0
    facts_sent: int = 0  # of the parent's list
    result: _Result | None = None

    def take(self, until: int) -> list[_Line]:
        """Remove and return its lines before position *until*."""
        end = bisect_left(self.kept, until, key=_position)
        taken, self.kept = self.kept[:end], self.kept[end:]
        self.kept_size -= sum([len(line) for _, _, line in taken])
        return taken


class _Parent:
    def __init__(self, run: Run, lines: Lines) -> None:
        self.written = 0  # bytes
        self.failed = False
        self._run = run
        self._lines = lines
        self._children: list[_Child] = []
        self._facts: list[tuple[_Child, Fact]] = []  # as they came
        self._values: dict[tuple[str, str], Any] = {}

    def start(self, files: Files, jobs: int, head: int) -> None:
        """Fork the tasks. Raises OSError."""
        self._run.flush()  # else each task would write the buffered output again
        context = get_context("fork")
        for task in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_decode_part, args=(self._run, files, (task, jobs, head), theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._children.append(_Child(process, ours))

    def collect(self, shown: Progress, advance: Callable[[], None]) -> None:
        """Write lines until all tasks are done, or one has failed. Raises EOFError if a task was killed."""
        while not self.failed and (working := [child for child in self._children if child.result is None]):
            behind = min(child.progress for child in working)
            read = [child for child in working if child.kept_size < MOST_KEPT or child.progress == behind]
            ready = wait([child.pipe for child in read])
            for child in [child for child in read if child.pipe in ready]:
                message = child.pipe.recv()
                if isinstance(message, str):
                    self.failed = True
                    return
                self._receive(child, message)
                shown.position = max(shown.position, message.read)
            self._write()
            self._answer()
            advance()

    def interrupt(self) -> None:
        """Make the tasks end where they are."""
        self._run.interrupted = True
        for child in self._children:
            if child.result is None and child.process.pid is not None:
                os.kill(child.process.pid, signal.SIGINT)

    def stop(self) -> None:
        for child in self._children:
            child.pipe.close()
            child.process.kill()
            child.process.join()

    def finish(self) -> None:
        """Add up what the tasks have counted."""
        results = [child.result for child in self._children if child.result is not None]
        for output in self._run.outputs:
            if isinstance(output, Summary):
                for result in results:
                    output.add(result.summary)
        if self._run.condition is not None:
            for _, note in sorted({note for result in results for note in result.notes}):
                self._run.condition.note(note)  # each once
        self._run.add_parts([result.part for result in results])

    def _receive(self, child: _Child, message: _Message) -> None:
        child.progress = END if message.result is not None else message.progress
        child.result = message.result
        child.asks = message.asks
        child.kept += message.lines
        child.kept_size += sum([len(line) for _, _, line in message.lines])
        for fact in message.facts:
            if self._values.setdefault(fact.key, fact.value) != fact.value:  # connections contradict each other
                self.failed = True
            self._facts.append((child, fact))

    def _write(self) -> None:
        """Write, in the order of their positions, the lines that no task can precede any more."""
        complete = min(END, *(child.progress + 1 for child in self._children))
        lines = [line for child in self._children for line in child.take(complete)]
        lines.sort(key=_position)  # each task's lines are in order already, so the sort is fast
        if lines:
            self._lines.write_at([line[1:] for line in lines])
            self.written += sum([len(line) for _, _, line in lines])

    def _answer(self) -> None:
        for child in self._children:
            reached = min((other.progress for other in self._children if other is not child), default=END)
            if child.asks and reached >= child.progress:
                facts = [fact for origin, fact in self._facts[child.facts_sent :] if origin is not child]
                child.facts_sent = len(self._facts)
                child.asks = False
                child.pipe.send((reached, facts))


# In a task


def _decode_part(run: Run, files: Files, division: tuple[int, int, int], pipe: Connection) -> None:
    gc.freeze()
    gc.enable()
    try:
        _Task(run, files, division, pipe).decode()
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")


class _Task:
    """Decodes a part; the Link of its Division.

    In the head all tasks have the same events, and only those of task 0 count.
    """

    def __init__(self, run: Run, files: Files, division: tuple[int, int, int], pipe: Connection) -> None:
        task, tasks, head = division
        self._run = run
        self._files = files
        self._pipe = pipe
        self._counts = task == 0
        self._division = Division(task, tasks, self, head=head, on_divide=self._begin_part)
        self._interrupted = False
        self._source: Capture | MergedCapture | None = None
        self._summary = Summary()
        self._notes_before = len(run.condition.notes) if run.condition is not None else 0
        self._notes: list[tuple[int, str]] = []
        self._facts: list[Fact] = []
        self._lines: list[_Line] = []
        self._size = 0
        signal.signal(signal.SIGINT, self._interrupt)

    def decode(self) -> None:
        """Decode, and send lines and result."""
        run = self._run
        lines = next(output for output in run.outputs if isinstance(output, Lines))
        run.begin_part([_PartLines(lines, self), self._summary])
        with self._files.open() as source:
            if isinstance(source, DecodedLog | MergedLog):
                raise CannotDivide("a decoded log")
            self._source = source
            if isinstance(source, Capture):
                # If reading the mapping kills this task, the parent decodes everything
                source.map_file(self._files.path)
            try:
                for _ in run.read_part(source, self._division, name=self._files.path.name):
                    if run.condition is not None:
                        fresh = run.condition.notes[self._notes_before + len(self._notes) :]
                        self._notes += [(self._division.position, note) for note in fresh]
                    self._check_interrupt()
            except KeyboardInterrupt:
                run.interrupt()
            if not self._counts:
                self._begin_part()  # the head is the whole capture
            self._send(END, result=_Result(self._summary, self._notes, run.part()))

    def _begin_part(self) -> None:
        if not self._counts:
            self._run.remove_output(self._summary)
            self._summary = Summary()
            self._run.add_output(self._summary)
        self._counts = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def _check_interrupt(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt

    def add_line(self, at: int, line: bytes) -> None:
        """Send a line to the parent, with others; *at*: the time of its event."""
        if not self._counts:
            return
        self._lines.append((self._division.position, at, line))
        self._size += len(line)
        if self._size >= BLOCK:
            self._send(self._division.position - 1)

    # Of Division: its Link

    def publish(self, fact: Fact) -> None:
        self._facts.append(fact)

    def ask(self, before: int) -> _Answer:
        self._send(before - 1, asks=True)
        answer: _Answer = self._pipe.recv()
        return answer

    def report(self) -> None:
        self._send(self._division.position)
        self._check_interrupt()

    def _send(self, progress: int, *, asks: bool = False, result: _Result | None = None) -> None:
        read = 0 if self._source is None else self._source.position
        self._pipe.send(_Message(progress, read, self._facts, self._lines, asks, result))
        self._facts, self._lines = [], []
        self._size = 0


class _PartLines(Observer):
    """The lines of a task, as *lines* of the parent would render them."""

    reads_bodies = True

    def __init__(self, lines: Lines, task: _Task) -> None:
        self._lines = lines
        self._task = task

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if shown:
            self._task.add_line(self._lines.time_of(event), self._lines.render(event, bodies))
