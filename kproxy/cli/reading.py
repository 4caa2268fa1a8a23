"""Read sources for ``kproxy report`` and ``kproxy sql``, with a progress bar, a first answer, and Ctrl-C to end the reading.

The first answer to a large source comes from a forked process (``FirstAnswer``), which goes on as if the sources ended here: its
numbers are those of a capture that is cut at this place. It sends its text over a pipe to the reading process, which never waits
for it.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kproxy.analyses.loading import Reading
from kproxy.capture.reader import end_waiting_read
from kproxy.cli.progress import progress
from kproxy.errors import UsageError
from kproxy.output.times import render_size
from kproxy.pipeline.inputs import Files, Input, files_of, plain_size

AFTER_S = 0.1  # of reading, on a processor
AFTER_WAITING_S = 2.0  # of reading where the source or the processor is slow
LEAST_LEFT_S = 1.0  # of reading: with less left, the report itself comes soon enough
EVENTS = 64  # between two looks at the clock
POLL_S = 0.05  # between two looks for the first answer
BAR_AFTER_S = 0.5  # of reading; most sources take less


class FirstAnswer:
    """The forked process, seen from both sides. ``is_here``: this is the forked process."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.is_here = False
        self.was_asked = not wanted  # also: the process was forked, or too little is left to read
        self._began = time.monotonic(), time.process_time()
        self._process: int | None = None
        self._pipe = -1
        self._text: list[bytes] = []
        self._is_cancelled = False

    def is_due(self, read: int, total: int | None) -> bool:
        """Return whether it is time to fork, after *read* of *total* bytes of the sources."""
        if self.was_asked:
            return False
        spent, worked = time.monotonic() - self._began[0], time.process_time() - self._began[1]
        if worked < AFTER_S and spent < AFTER_WAITING_S:
            return False
        if total is None and spent < LEAST_LEFT_S:  # compressed: as much again may be left as was read
            return False
        self.was_asked = True
        return total is None or (total - read) * spent > LEAST_LEFT_S * read

    def fork(self) -> None:
        """Fork; afterwards ``is_here`` tells the two processes apart. If it fails (no memory), there is no first answer."""
        self.was_asked = True
        if not hasattr(os, "fork"):
            return
        ours, theirs = os.pipe()
        try:
            self._process = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            return
        self.is_here = self._process == 0
        self._pipe = theirs if self.is_here else ours
        os.close(ours if self.is_here else theirs)
        if self.is_here:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads ends this one
        else:
            os.set_blocking(ours, False)

    def send(self, text: str) -> NoReturn:
        """Send the answer, and end the forked process."""
        with open(self._pipe, "wb") as pipe:  # noqa: PTH123 - a descriptor
            pipe.write(text.encode("utf-8", "backslashreplace"))
        os._exit(0)

    def received(self) -> str:
        """Return the answer once it is complete, and only once; else, or if the process failed or was cancelled, ""."""
        while self._process:
            try:
                data = os.read(self._pipe, 65_536)
            except BlockingIOError:
                return ""
            if not data:
                worked = self._reap() == 0
                return b"".join(self._text).decode("utf-8", "replace") if worked and not self._is_cancelled else ""
            self._text.append(data)
        return ""

    def cancel(self) -> None:
        """Suppress the answer; may be called in a signal handler."""
        self.was_asked = self._is_cancelled = True

    @contextmanager
    def contained(self) -> Iterator[None]:
        """End the forked process at the end of the block, also after an exception; in the other process, wait for its end."""
        try:
            yield
        except BaseException:
            if self.is_here:
                os._exit(1)
            raise
        finally:
            if self.is_here:
                os._exit(0)
            if self._process:
                with suppress(ProcessLookupError):
                    os.kill(self._process, signal.SIGKILL)
                self._reap()

    def _reap(self) -> int:
        """Wait for the end of the process, which is near; return its status."""
        os.close(self._pipe)
        process, self._process = self._process, None
        return 0 if process is None else os.waitpid(process, 0)[1]


class SourceReader:
    """Reads sources one after the other. Give a Database ``read`` as *watch* and ``state`` as *reading*.

    Args:
        sources: all of them.
        bar: show a bar where standard error is a terminal.
        separate: see Reading.
        first: the first answer; None: it is not wanted.
        show: called with the text of the first answer.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        *,
        bar: bool,
        separate: bool = False,
        first: FirstAnswer | None = None,
        show: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.first = first or FirstAnswer(wanted=False)
        self.state = Reading(holds=not self.first.was_asked, separate=separate)
        self.interrupted = False
        sizes = [plain_size(file) for source in sources for file in _files_of(source)]
        self._sources = len(sources)
        self._total = None if None in sizes else sum(size for size in sizes if size is not None)
        self._bar = bar
        self._show = show
        self._began = time.monotonic()
        self._polled = 0.0
        self._before = 0  # bytes of the sources before
        self._source: Input | None = None

    @property
    def part(self) -> str:
        """The part of the sources that was read, in words."""
        what = f" of {self._sources} sources" if self._sources > 1 else ""
        if self._total is None:
            return f"the first {render_size(self._read)}{what}, after decompression"
        percent = self._read * 100 // max(self._total, 1)
        return f"the first {render_size(self._read)} of {render_size(self._total)}{what} ({percent}%)"

    @property
    def _read(self) -> int:
        return self._before + (0 if self._source is None else self._source.position)

    def read(self, files: Files, source: Input, steps: Iterator[None]) -> None:
        """Read a source to its end, or until Ctrl-C."""
        self._source = source
        with self._ends_at_interrupt(source):
            if not self.state.holds or not self._read_first_part(source, steps):
                while not self._read_on(files, source, steps):
                    pass
        self._before, self._source = self._read, None

    def poll(self) -> None:
        """Show the first answer if it has come."""
        if text := self.first.received():
            self._show(text)

    def _read_first_part(self, source: Input, steps: Iterator[None]) -> bool:
        """Read until the first answer is due, and fork; return whether the source has ended, as it has in the forked process."""
        first = self.first
        for count, _ in enumerate(steps):
            if count % EVENTS == 0 and first.is_due(self._read, self._total):
                first.fork()
            if first.was_asked or self.interrupted:
                break
        else:
            return True
        self.state.holds = False
        if first.is_here:
            self.state.is_part = self.state.ended = True
            source.stop()
            for _ in steps:
                pass
        return first.is_here

    def _read_on(self, files: Files, source: Input, steps: Iterator[None]) -> bool:
        """Read on until the end of the source, the first answer, or the time for a bar. Returns whether it was the end."""
        text = ""
        has_bar = self._bar and time.monotonic() - self._began > BAR_AFTER_S
        with progress(files, source, wanted=has_bar) as advance:
            for count, _ in enumerate(steps):
                if advance is not None:
                    advance()
                if count % EVENTS:
                    continue
                now = time.monotonic()
                if now - self._polled >= POLL_S:
                    self._polled = now
                    text = self.first.received()
                if text or (self._bar and not has_bar and time.monotonic() - self._began > BAR_AFTER_S):
                    break
            else:
                return True
        if text:
            self._show(text)  # now that the bar is gone
        return False

    @contextmanager
    def _ends_at_interrupt(self, source: Input) -> Iterator[None]:
        """While the block runs, the first Ctrl-C ends the source where it is, and the second one the program."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            self.interrupted = self.state.ended = True
            source.stop()
            self.first.cancel()
            print("\rkproxy: interrupted; Ctrl-C again to leave without an answer", file=sys.stderr)
            end_waiting_read(frame)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _files_of(source: Path) -> list[Path]:
    """Return the files of a source; a mistake in its name is reported when it is read."""
    try:
        return files_of(source)
    except UsageError:
        return [source]
