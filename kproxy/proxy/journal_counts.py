"""JournalCounts: the counts of a journal, kept where they survive a kill at any moment, even if the disk is full.

    the file        next to the journal; written by one pwrite(2), which a kill does not cut in two. It is not mapped: a mapped
                    file that is truncated, or a disk without room for a page, would end the process with SIGBUS
    its attribute   user.kproxy.counts, where the disk has no room for the file's first block
    the memory      of the supervisor (SharedCounts.memory), which needs no disk: for the worker that is started next

Each has all the counts. The newest has the greatest sum, as counts only grow; if two sums are equal, the file wins: it
also has the line that is being written. If all are missing, the counts are made from the newest part.
"""

import errno
import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Protocol

from kproxy.errors import UsageError

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
