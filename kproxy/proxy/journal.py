"""FileJournal: an append-only file of numbered JSON lines; each number is in it or counted as dropped, even after a kill.

For the path ``audit.jsonl`` worker 0 writes ``audit-0.jsonl`` (rotated parts: ``audit-0.000001.jsonl``) and keeps its counts in
``audit-0.jsonl.counts`` (JournalCounts): what a process has counted stays when it is killed. Each worker has its own files,
so no process waits for another, and the next process of the same worker goes on with the numbers.

    a number is taken     ``seen`` grows
    its line is written   the counts say which line is being written, and where in the part; it goes to the file by one write(2);
                          ``written`` grows
    it is dropped         ``dropped`` grows; a line {"event":"dropped"} lists it, as soon as a line can be written
    the process is killed the next one looks whether the line that was being written is in the part. Numbers that are neither
                          written nor dropped then are dropped; a line {"event":"lost"} counts those that no line lists
    a part begins         its first line, {"event":"begin"}, has the three counts up to there

So ``seen == written + dropped`` whenever no number is open, and ``written`` is the number of lines with a sequence. Counts and
lines survive the end of a process, not of the machine: the kernel has the pages and writes them when it likes.

Only the disk thread (DiskThread) touches the disk, and callers wait for it only a limited time. While a call hangs, the
journal is not writable; a number whose line hangs stays open until it is known whether the line was written.
"""

import errno
import fcntl
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, Protocol

import msgspec

from kproxy.errors import UsageError
from kproxy.options import Rotated
from kproxy.pipeline.sink import RotatingFile

SHORT_S = 0.01
MOST_WAIT_S = 0.2  # longer than a thread waits for a core on a busy machine
REFILL = 0.1  # seconds by which the allowance grows in a second
HANGS_AFTER_S = 1.0

Call = Callable[[], bool]


class DiskThread:
    """Makes calls in a thread of its own, which is started with the first call and does not keep the process from ending."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._done = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._result = False
        self._left = MOST_WAIT_S
        self._at = clock()
        self._began = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a call is still running; then no other one may be made."""
        if self._is_busy and self._done.acquire(blocking=False):
            self._is_busy = False
        return self._is_busy

    @property
    def hangs(self) -> bool:
        """Whether the present call takes longer than a working disk needs."""
        return self.is_busy and self._clock() - self._began >= HANGS_AFTER_S

    def call(self, function: Call, most_wait_s: float | None = None) -> bool | None:
        """Make a call and return its result; None: it is still running after the wait. An exception in it counts as False."""
        assert not self.is_busy
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._began = self._clock()
        self._is_busy = True
        self._calls.put(function)
        self._wait(self._wait_s() if most_wait_s is None else most_wait_s)
        return None if self._is_busy else self._result

    def settle(self, most_wait_s: float) -> bool:
        """Wait for the present call; return whether it has ended."""
        if self.is_busy:
            self._wait(most_wait_s)
        return not self._is_busy

    def end(self) -> None:
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _wait(self, seconds: float) -> None:
        if self._done.acquire(timeout=seconds):
            self._is_busy = False
        self._left -= max(self._clock() - self._began - SHORT_S, 0.0)

    def _wait_s(self) -> float:
        """Return how long the next call may be waited for."""
        now = self._clock()
        self._left = min(MOST_WAIT_S, self._left + (now - self._at) * REFILL)
        self._at = now
        return SHORT_S + max(self._left, 0.0)

    def _run(self) -> None:
        while (function := self._calls.get()) is not None:
            try:
                self._result = function()
            except Exception:
                self._result = False
            self._done.release()


COUNTS = Struct("<8s4QqQQQQ")
MAGIC = b"kpcount3"
ATTRIBUTE = "user.kproxy.counts"
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Memory(Protocol):
    """Bytes that outlive the process."""

    def read(self) -> bytes:
        """What was written last; zeros at first."""

    def write(self, data: bytes) -> None:
        """Write all of *data*, in one step."""


class Pending(NamedTuple):
    """A line that is about to be written: what it is, and where its bytes will be once it is in the file."""

    number: int  # of the journal; 0: a line that reports dropped numbers
    reported: int  # how many it reports
    inode: int  # of the part
    offset: int
    size: int


NOTHING = Pending(0, 0, 0, 0, 0)


class JournalCounts:
    """The counts, loaded when the object is made. Raises UsageError if another process has the file."""

    def __init__(self, path: Path, memory: Memory | None = None) -> None:
        self.seen = self.written = self.dropped = 0
        self.reported = 0  # dropped numbers that lines of the journal report
        self.pending = NOTHING
        self.are_new = True  # nothing was found
        self._path = path
        self._memory = memory
        self._lock = threading.Lock()  # the disk thread saves while another one counts
        self._fd = -1
        self._identity = (0, 0)
        try:
            self._open()
        except BlockingIOError:
            raise UsageError(f"{str(path)!r} is used by another process: give each its own path") from None
        except OSError:  # tried again by each save
            pass
        self._load()

    def save(self) -> None:
        """Write the counts to the memory and to the disk. Raises OSError if the disk has room for them nowhere."""
        data = self.remember()
        if self._fd < 0 or self._is_replaced():
            self._release()
            self._open()
            self._check_is_not_newer()
        try:
            os.pwrite(self._fd, data, 0)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            os.setxattr(self._fd, ATTRIBUTE, data)

    def remember(self) -> bytes:
        """Write the counts to the memory alone; return the bytes."""
        with self._lock:
            data = COUNTS.pack(MAGIC, self.seen, self.written, self.dropped, self.reported, *self.pending)
            if self._memory is not None:
                self._memory.write(data)
            return data

    def settle(self, is_written: bool) -> None:
        """Count the pending line as written if *is_written*; no line is pending after this."""
        with self._lock:
            if is_written:
                self.written += self.pending.number > 0
                self.reported += self.pending.reported
            self.pending = NOTHING

    def close(self) -> None:
        """Save, and release the file for other processes."""
        with suppress(OSError):
            self.save()
        self._release()

    def _open(self) -> None:
        """Open and lock the file. Raises OSError, BlockingIOError if another process has it."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(fd)
        except OSError:
            os.close(fd)
            raise
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _is_replaced(self) -> bool:
        """Return whether the path has another file than the one that is open, or none."""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _load(self) -> None:
        """Load the newest counts of the three places."""
        kept = [self._in_file(), self._in_attribute(), self._memory.read() if self._memory else b""]
        counts = [COUNTS.unpack_from(data)[1:] for data in kept if data[:8] == MAGIC and len(data) >= COUNTS.size]
        if counts:
            newest = max(counts, key=lambda words: sum(words[:4]))
            self.seen, self.written, self.dropped, self.reported = newest[:4]
            self.pending = Pending(*newest[4:])
            self.are_new = False

    def _check_is_not_newer(self) -> None:
        """Raise OSError if the file has newer counts, which could not be read at the start and must not be overwritten."""
        data = self._in_file()
        if data[:8] == MAGIC and len(data) == COUNTS.size:
            newer = sum(COUNTS.unpack(data)[1:5]) > self.seen + self.written + self.dropped + self.reported
            if newer:
                self._release()
                raise OSError(errno.EBUSY, "it has the counts of another run: start kproxy anew", str(self._path))

    def _in_file(self) -> bytes:
        with suppress(OSError):
            if self._fd >= 0:
                return os.pread(self._fd, COUNTS.size, 0)
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                return file.read(COUNTS.size)
        return b""

    def _in_attribute(self) -> bytes:
        with suppress(OSError):
            return os.getxattr(self._path, ATTRIBUTE, follow_symlinks=False)
        return b""


FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_RANGES = 1_000  # of dropped numbers that are listed in one line
HANGS = "the disk does not answer"
MOST_CLOSE_S = 3.0  # that the disk may take when the journal is closed


class FileJournal:
    """The journal of one worker at one path; see kproxy.filters.contract.Journal. No method raises for errors of the disk.

    Args:
        file: where, and how it is rotated.
        worker: number of the worker.
        report: called once a minute with the reason why nothing can be written.
        clock: seconds of a clock that never goes back.
        now: seconds since the epoch.
        memory: returns the memory of a name (the path of the counts), which keeps the counts while the disk cannot.

    Raises UsageError if another process has it.
    """

    def __init__(
        self,
        file: Rotated,
        worker: int,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        memory: Callable[[str], Memory] | None = None,
    ) -> None:
        path = worker_path(Path(file.path), worker)
        counts = path.with_name(f"{path.name}.counts")
        self.worker = worker
        self._now = now
        self._report = report
        self._counts = JournalCounts(counts, memory(str(counts)) if memory else None)
        self._open: set[int] = set()
        self._writing = 0  # number of the line that the disk thread has, until its result is collected
        self._is_written = False  # whether that line was written
        self._late: set[int] = set()  # numbers whose lines were written after ``write`` had returned False
        # dropped while their lines were being written: counted once the result is known
        self._given_up: set[int] = set()
        self._drops_lock = threading.Lock()  # guards the next three
        self._ranges: list[list[int]] = []  # of dropped numbers that no line lists yet
        self._unlisted = 0  # how many dropped numbers no line lists yet
        self._lost = 0  # numbers lost by an earlier process that no line reports yet
        self._is_ready = False  # whether the last call could write
        self._unreported = ""
        self._reported_hanging = False
        self._file = RotatingFile(
            path,
            most_size=file.most_size,
            most_age=file.most_age,
            keep=file.keep,
            clock=clock,
            report=self._note_failure,
            begin_part=self._begin_part,
            block=1,
        )
        self._disk = DiskThread(f"kproxy-journal-{worker}")
        self._recover(path)

    @property
    def seen(self) -> int:
        return self._counts.seen

    @property
    def written(self) -> int:
        return self._counts.written

    @property
    def dropped(self) -> int:
        return self._counts.dropped

    @property
    def is_writable(self) -> bool:
        """See Journal. Writes the lines about dropped numbers first."""
        if self._is_busy():
            return False
        if self._is_ready and not self._unlisted and not self._lost:
            return True
        return bool(self._call(self._prepare))

    @property
    def is_late(self) -> bool:
        return self._is_busy() and not self._disk.hangs

    def look(self) -> str:
        """Try whether the files can be written. Return "" or why not."""
        if self._is_busy():
            return HANGS if self._disk.hangs else ""
        return "" if self._call(self._prepare) in (True, None) else self._file.reason

    def take(self) -> int:
        number = self._counts.seen = self._counts.seen + 1
        self._counts.remember()
        self._open.add(number)
        if not self._is_busy():
            self._call(self._prepare)
        return number

    def write(self, number: int, line: bytes) -> bool:
        """See Journal; *line* is a JSON object with at least one member. A line that was late is written once."""
        if self._is_busy():
            return False
        if number in self._late:
            self._late.discard(number)
            return True
        if number not in self._open:
            return False
        self._writing, self._is_written = number, False
        data = b'{"sequence":%d,%b\n' % (number, line[1:])
        if self._call(lambda: self._write(number, data)) is None:
            return False
        return self._collect()

    def drop(self, number: int) -> None:
        is_busy = self._is_busy()
        self._late.discard(number)
        if is_busy and number == self._writing:
            self._given_up.add(number)
        elif number in self._open:
            self._drop(number)
            if not is_busy:
                self._call(self._save)

    def close(self) -> None:
        """Drop open numbers, list them, and close the files. If the disk hangs, the next process lists them."""
        if self._disk.settle(MOST_CLOSE_S):
            self._is_busy()
            for number in sorted(self._open):
                self._drop(number)
            self._disk.call(self._finish, MOST_CLOSE_S)
        self._disk.end()

    def _call(self, function: Callable[[], bool]) -> bool | None:
        result = self._disk.call(function)
        if result is not None:
            self._report_failure()
        return result

    def _is_busy(self) -> bool:
        """Return whether the disk thread is busy; if it is not, collect the result of a late line."""
        self._report_failure()
        if self._disk.is_busy:
            return True
        number = self._writing
        if number and self._collect() and number not in self._given_up:
            self._late.add(number)
        self._given_up.discard(number)
        return False

    def _collect(self) -> bool:
        """Collect the result of the disk thread's line; return whether it was written."""
        number, self._writing = self._writing, 0
        if self._is_written:
            self._open.discard(number)
        elif number in self._given_up:
            self._drop(number)
        return self._is_written

    def _drop(self, number: int) -> None:
        """Count a number as dropped, and note it for the next line that lists drops."""
        self._open.discard(number)
        with self._drops_lock:
            self._unlisted += 1
            if self._ranges and self._ranges[-1][1] == number - 1:
                self._ranges[-1][1] = number
            elif len(self._ranges) < MOST_RANGES:
                self._ranges.append([number, number])
        self._counts.dropped += 1
        self._counts.remember()

    def _report_failure(self) -> None:
        """Report why nothing can be written. The disk thread itself must not."""
        if self._disk.hangs != self._reported_hanging:
            self._reported_hanging = not self._reported_hanging
            if self._reported_hanging:
                self._is_ready, self._unreported = False, HANGS
        if self._unreported:
            reason, self._unreported = self._unreported, ""
            self._report(reason)

    # In the disk thread

    def _note_failure(self, reason: str) -> None:
        self._unreported = reason

    def _save(self) -> bool:
        """Save the counts; a failure counts as one of the file."""
        try:
            self._counts.save()
        except OSError as error:
            self._file.fail(error)
            return False
        return True

    def _prepare(self) -> bool:
        """Save the counts, begin a part if there is none, list dropped and lost numbers; return whether all that worked."""
        self._is_ready = self._save() and self._file.is_open() and self._list_drops()
        return self._is_ready

    def _write(self, number: int, data: bytes) -> bool:
        self._is_written = self._prepare() and self._append(data, number)
        return self._is_written

    def _list_drops(self) -> bool:
        """Write lines that list lost and dropped numbers; return whether all are listed."""
        with self._drops_lock:
            lost, unlisted, ranges = self._lost, self._unlisted, self._ranges
            self._lost, self._unlisted, self._ranges = 0, 0, []
        if lost and self._append(self._event("lost", count=lost), reported=lost):
            lost = 0
        if (
            unlisted
            and not lost
            and self._append(self._event("dropped", count=unlisted, numbers=ranges), reported=unlisted)
        ):
            unlisted, ranges = 0, []
        with self._drops_lock:
            self._lost += lost
            self._unlisted += unlisted
            self._ranges = [*ranges, *self._ranges][:MOST_RANGES]
        return not lost and not unlisted

    def _append(self, data: bytes, number: int = 0, reported: int = 0) -> bool:
        """Write one line to the open part, noting first where it will be, so that a later process can look for it."""
        inode, size = self._file.part
        self._counts.pending = Pending(number, reported, inode, size, len(data))
        failures = self._file.failures
        if self._save():
            self._file.append(data)
        is_written = self._file.failures == failures
        self._counts.settle(is_written)
        self._is_ready &= is_written and self._save()
        return is_written

    def _finish(self) -> bool:
        if self._unlisted or self._lost:
            self._prepare()
        self._file.close()
        self._counts.close()
        return True

    def _begin_part(self) -> bytes:
        counts = self._counts
        return self._event("begin", seen=counts.seen, written=counts.written, dropped=counts.dropped)

    def _event(self, event: str, **values: Any) -> bytes:
        at = round(self._now(), 3)
        return msgspec.json.encode({"event": event, "worker": self.worker, "at": at, **values}) + b"\n"

    # Before the first call

    def _recover(self, path: Path) -> None:
        """Settle what an earlier process has left: cut off an incomplete line, drop open numbers."""
        counts = self._counts
        parts = [path]
        with suppress(OSError):
            parts += reversed(self._file.parts())
        if counts.are_new:
            counts.seen, counts.written, counts.reported = counts_of_lines(parts)
        counts.settle(truncate_unfinished_part(parts, counts.pending))
        counts.dropped = counts.seen - counts.written
        self._lost = max(counts.dropped - counts.reported, 0)
        counts.remember()


def worker_path(path: Path, worker: int) -> Path:
    """``audit.jsonl`` -> ``audit-0.jsonl``."""
    name, dot, suffixes = path.name.partition(".")
    return path.with_name(f"{name}-{worker}{dot}{suffixes}")


def truncate_unfinished_part(parts: Iterable[Path], pending: Pending) -> bool:
    """Return whether the pending line is in one of the parts; if only a beginning of it is, truncate the part there."""
    if not pending.size:
        return False
    for part in parts:
        with suppress(OSError), os.fdopen(os.open(part, FLAGS), "r+b") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != pending.inode or status.st_size <= pending.offset:
                continue
            data = os.pread(file.fileno(), pending.size, pending.offset)
            if len(data) == pending.size and data.endswith(b"\n"):
                return True
            if b"\n" not in data:
                file.truncate(pending.offset)
    return False


def counts_of_lines(parts: Iterable[Path]) -> tuple[int, int, int]:
    """Return the counts by the newest part that has any lines: numbers seen, numbers written, dropped numbers that lines list.

    Used where the counts were removed. An incomplete line at the end of a part is cut off.
    """
    for part in parts:
        counts = [0, 0, 0]
        with suppress(OSError), os.fdopen(os.open(part, FLAGS), "r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(file.tell() - len(line))
                    break
                _count(counts, line)
        if any(counts):
            seen, written, reported = counts
            return seen, written, min(reported, seen - written)
    return 0, 0, 0


def _count(counts: list[int], line: bytes) -> None:
    """Count one line in [seen, written, reported]."""
    with suppress(ValueError):
        match json.loads(line):
            case {"event": "begin", "seen": int(seen), "written": int(written), "dropped": int(dropped)}:
                counts[:] = [seen, written, dropped]
            case {"sequence": int(number)}:
                counts[0], counts[1] = max(counts[0], number), counts[1] + 1
            case {"event": "dropped" | "lost", "count": int(count)}:
                counts[2] += count
