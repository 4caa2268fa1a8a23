"""Journal: an append-only file of numbered JSON lines in which every number is there, or counted as dropped, also after a kill.

For the path ``audit.jsonl`` worker 0 writes ``audit-0.jsonl`` (rotated parts: ``audit-0.000001.jsonl``) and keeps its counts in
``audit-0.jsonl.counts``, which is mapped into memory: what a process has counted stays when it is killed. Each worker has its
own files, so no process waits for another, and the next process of the same worker goes on with the numbers.

    a number is taken     ``seen`` grows
    its line is written   the number is noted as being written, the line goes to the file by one write(2), ``written`` grows
    it is dropped         ``dropped`` grows; a line {"event":"dropped"} says which, as soon as a line can be written
    the process is killed the next one looks whether the line that was being written is the last one in the file; what is neither
                          written nor dropped then is dropped, and a line {"event":"lost"} says how many
    a part begins         its first line, {"event":"begin"}, has the three counts up to there

So ``seen == written + dropped`` whenever nothing is open, and ``written`` is the number of lines with a sequence. What survives
is the end of a process, not that of the machine: the kernel has the pages, and writes them when it likes.
"""

import fcntl
import json
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

from kproxy.errors import UsageError
from kproxy.filters.options import Rotated
from kproxy.pipeline.rotating_file import RotatingFile

COUNTS = Struct("<8sQQQQQ")  # magic, seen, written, dropped, the number being written, written before it
MAGIC = b"kpcount2"
LAST_LINES = 1 << 20  # bytes at the end of a file that are searched for its last line
MOST_RANGES = 1_000  # of dropped numbers that are listed in one line


class Counts:
    """The counts of a journal, in a file that is mapped into memory. Where that cannot be written they are in memory alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._memory: bytearray | mmap.mmap = bytearray(COUNTS.size)
        self.seen = self.written = self.dropped = self.writing = self.written_before = 0
        self._open()

    def _open(self) -> None:
        """Map the file. Raises UsageError if another process has it."""
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            self._read()
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UsageError(f"{str(self._path)!r} is used by another process: give each its own path") from None
        self._read()
        try:
            os.posix_fallocate(self._fd, 0, COUNTS.size)  # so that a full disk is noticed here
            self._memory = mmap.mmap(self._fd, COUNTS.size)
        except OSError:
            self.close()
            return
        self.keep()

    def _read(self) -> None:
        with suppress(OSError):
            data = self._path.read_bytes()[: COUNTS.size]
            if len(data) == COUNTS.size and data.startswith(MAGIC):
                _, self.seen, self.written, self.dropped, self.writing, self.written_before = COUNTS.unpack(data)

    def keep(self) -> None:
        """Write the counts to the memory that outlives the process."""
        words = (self.seen, self.written, self.dropped, self.writing, self.written_before)
        self._memory[: COUNTS.size] = COUNTS.pack(MAGIC, *words)  # pack_into would write zeros first

    def close(self) -> None:
        """Release the file: another process may have it now."""
        if isinstance(self._memory, mmap.mmap):
            self.keep()
            self._memory.close()
            self._memory = bytearray(COUNTS.size)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileJournal:
    """The journal of one worker at one path; see kproxy.filters.contract.Journal. No method raises for errors of the disk.

    Args:
        file: where, and how it is rotated.
        worker: number of the worker.
        report: called once a minute with the reason why nothing can be written.
        clock: seconds of a clock that never goes back.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        file: Rotated,
        worker: int,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        path = worker_path(Path(file.path), worker)
        self.worker = worker
        self._now = now
        self._counts = Counts(path.with_name(f"{path.name}.counts"))
        self._open: set[int] = set()
        self._ranges: list[list[int]] = []  # of numbers dropped that no line tells of yet
        self._untold = 0  # how many
        self._lost = 0  # by a process before, and no line tells of it yet
        self._file = RotatingFile(
            path,
            most_size=file.most_size,
            most_age=file.most_age,
            keep=file.keep,
            clock=clock,
            report=report,
            begin_part=self._begin_part,
            block=1,
        )
        self._recover(path)

    @property
    def seen(self) -> int:
        """See Journal."""
        return self._counts.seen

    @property
    def written(self) -> int:
        """See Journal."""
        return self._counts.written

    @property
    def dropped(self) -> int:
        """See Journal."""
        return self._counts.dropped

    @property
    def is_writable(self) -> bool:
        """See Journal. Writes the lines about dropped numbers first."""
        return self._file.is_open() and self._tell()

    def take(self) -> int:
        """See Journal."""
        self._counts.seen += 1
        self._counts.keep()
        self._open.add(self._counts.seen)
        return self._counts.seen

    def write(self, number: int, line: bytes) -> bool:
        """See Journal; *line* is a JSON object with at least one member."""
        if number not in self._open or not self.is_writable:
            return False
        counts = self._counts
        counts.written_before = counts.written  # kept before the number is, as a kill may come between any two words
        counts.keep()
        counts.writing = number
        counts.keep()
        is_written = self._file.write(b'{"sequence":%d,%b\n' % (number, line[1:]))
        counts.writing = 0
        if is_written:
            counts.written += 1
            self._open.discard(number)
        counts.keep()
        return is_written

    def drop(self, number: int) -> None:
        """See Journal."""
        if number not in self._open:
            return
        self._open.discard(number)
        self._counts.dropped += 1
        self._counts.keep()
        self._untold += 1
        if self._ranges and self._ranges[-1][1] == number - 1:
            self._ranges[-1][1] = number
        elif len(self._ranges) < MOST_RANGES:
            self._ranges.append([number, number])

    def close(self) -> None:
        """Drop what is open, tell of it, and close the files."""
        for number in sorted(self._open):
            self.drop(number)
        if self._untold:
            _ = self.is_writable
        self._file.close()
        self._counts.close()

    def _tell(self) -> bool:
        """Write what is to be told of numbers that were dropped or lost; False if it cannot be written."""
        if self._lost:
            if not self._file.write(self._event("lost", count=self._lost)):
                return False
            self._lost = 0
        if self._untold:
            if not self._file.write(self._event("dropped", count=self._untold, numbers=self._ranges)):
                return False
            self._untold, self._ranges = 0, []
        return True

    def _begin_part(self) -> bytes:
        counts = self._counts
        return self._event("begin", seen=counts.seen, written=counts.written, dropped=counts.dropped)

    def _event(self, event: str, **values: Any) -> bytes:
        at = round(self._now(), 3)
        return msgspec.json.encode({"event": event, "worker": self.worker, "at": at, **values}) + b"\n"

    def _recover(self, path: Path) -> None:
        """Settle what a process before has left: a line that is not whole is cut off, what was open is dropped."""
        counts = self._counts
        if counts.writing and counts.writing == self._last_number(path):
            counts.written = counts.written_before + 1
        counts.writing = 0
        self._lost = counts.seen - counts.written - counts.dropped
        counts.dropped += self._lost
        counts.keep()

    def _last_number(self, path: Path) -> int:
        """The sequence in the last line that has one, in the part being written, else in the newest that is complete."""
        parts = [path]
        with suppress(OSError):
            parts += self._file.parts()[-1:]
        for part in parts:
            with suppress(OSError):
                for line in reversed(_whole_lines(part)):
                    with suppress(ValueError):
                        number = json.loads(line).get("sequence")
                        if isinstance(number, int):
                            return number
        return 0


def worker_path(path: Path, worker: int) -> Path:
    """``audit.jsonl`` -> ``audit-0.jsonl``."""
    name, dot, suffixes = path.name.partition(".")
    return path.with_name(f"{name}-{worker}{dot}{suffixes}")


def _whole_lines(path: Path) -> list[bytes]:
    """The last whole lines of a file; what follows the last line end is cut off. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(size - LAST_LINES, 0))
        data = file.read(LAST_LINES)
        end = data.rfind(b"\n") + 1
        if end < len(data):
            file.truncate(start + end)
        return data[:end].splitlines()
