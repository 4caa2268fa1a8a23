"""Settle which requests of each ring are in the decoded log for good, so that each is counted once when an analyzer is killed.

A worker counts the requests that it wrote to its ring. The analyzer settles (TapReader.settle) those whose exchanges are on
the disk, could not be written there, or could not be made, together with the size of the log, in one step. After a kill

    * the worker counts what was written and not settled as left out, once the next reader is there (tap_cursor.pyx)
    * the next analyzer cuts the log off at the settled size (``cut_off``): what follows was written but not settled, or is half
      a line

Without a log, an exchange is settled when it was handed to the outputs.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kproxy.output.bodies import Bodies
from kproxy.pipeline.connections import Connections
from kproxy.pipeline.line_output import Lines, Render
from kproxy.pipeline.output import Source
from kproxy.pipeline.sink import RotatingFile
from kproxy.proxy.tap.ring import TapReader
from kproxy.session import Event, Exchange


class Settlement:
    """What is settled of the rings. *readers* and *connections* have one element for each worker, in the same order."""

    def __init__(self, readers: Sequence[TapReader], connections: Sequence[Connections]) -> None:
        self._readers = readers
        self._connections = connections
        self.output: Counter[str] = Counter()  # requests whose lines could not be written, under the reason "output"
        self._before = [reader.settled[0] for reader in readers]  # requests that earlier analyzers settled
        self.log: LogLines | None = None

    def use(self, log: "LogLines | None") -> None:
        """Settle by this log from now on; the previous one is closed. None: settle what is handed to the outputs."""
        self.log = log
        if log is not None:
            log.settlement = self
            log.settled = {ring: connections.requests for ring, connections in enumerate(self._connections)}

    def left_out(self) -> dict[str, int]:
        """Return how many requests came and are not in the log, by reason."""
        counts = Counter(self.output)
        for connections in self._connections:
            counts.update(connections.left_out)
        return dict(counts)

    def publish(self) -> None:
        """Settle what is on the disk now."""
        log = self.log
        file, size = (0, 0) if log is None else log.file.part
        for ring, (reader, connections) in enumerate(zip(self._readers, self._connections, strict=True)):
            done = connections.requests if log is None else log.settled.get(ring, 0)
            reader.settle(self._before[ring] + done + sum(connections.left_out.values()), file, size)


class LogLines(Lines):
    """The decoded log; counts for each ring how many requests are in its file, or were dropped."""

    def __init__(self, render: Render, file: RotatingFile) -> None:
        super().__init__(render, file)
        self.file = file
        self.settlement: Settlement | None = None
        self.settled: dict[int, int] = {}  # requests by ring: on the disk, or dropped
        self._dropped = 0  # requests that are not counted yet
        self._buffered: dict[int, int] = {}
        self._ring = 0
        self._seen = (0, 0)

    def start_source(self, source: Source) -> None:
        """See Output. A run numbers its sources from 1, and the first ones are the rings."""
        super().start_source(source)
        self._ring = source.number - 1

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        file, seen = self.file, self._seen
        is_kept = file.write(
            self.render(event, bodies)
        )  # every event of a live source is shown, and none has a line yet
        is_same = file.flushes == seen[0] and file.discards == seen[1]  # nothing was flushed or dropped meanwhile
        if type(event) is Exchange and event.request is not None:
            if is_kept and is_same:
                self._buffered[self._ring] = self._buffered.get(self._ring, 0) + 1  # nearly always
            else:
                self._note(is_kept, is_same)
        elif not is_same:
            self._settle()

    def _note(self, is_kept: bool, is_same: bool) -> None:
        """Count the request that was just written, before or after settling what was flushed meanwhile."""
        file = self.file
        refused = not is_kept and file.discards == self._seen[1]  # this line alone: no file could be opened for it
        if not is_same and (refused or not file.is_flushed):
            self._settle()  # the part before was closed first, and this line is not in it
        self._buffered[self._ring] = self._buffered.get(self._ring, 0) + 1
        if file.is_flushed:
            self._settle(dropped=refused)

    def flush(self) -> None:
        super().flush()
        self._settle()

    def close(self, error: BaseException | None = None) -> None:
        super().close(error)
        self._settle()

    def _settle(self, *, dropped: bool = False) -> None:
        """Count what is buffered as settled: it was flushed, or dropped with the buffer."""
        discards = self.file.discards
        if dropped or discards != self._seen[1]:
            self._dropped += sum(self._buffered.values())
        self._seen = self.file.flushes, discards
        for ring, count in self._buffered.items():
            self.settled[ring] = self.settled.get(ring, 0) + count
        self._buffered.clear()
        if self.settlement is not None:
            self.settlement.output["output"] += self._dropped
            self._dropped = 0
            self.settlement.publish()


def cut_off(path: Path, readers: Sequence[TapReader]) -> None:
    """Cut off the log at *path*, or the part of it that a killed analyzer wrote last, at the size that it had settled."""
    settled = [reader.settled[1:] for reader in readers]
    files = {file: min(size for other, size in settled if other == file) for file, _ in settled if file}
    stem, _, suffixes = path.name.partition(".")
    part = re.compile(rf"{re.escape(stem)}(\.\d{{6,18}})?{re.escape('.' + suffixes if suffixes else '')}")
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            if part.fullmatch(entry.name) and entry.inode() in files:
                _cut(path.parent / entry.name, entry.inode(), files[entry.inode()])


def _cut(path: Path, inode: int, size: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if stat.S_ISREG(status.st_mode) and status.st_ino == inode and status.st_size > size:
            os.ftruncate(file, size)
    finally:
        os.close(file)
