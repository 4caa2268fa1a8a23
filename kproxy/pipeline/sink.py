"""Write bytes to standard output or a file (Sink), or to a file in parts, by size and age (RotatingFile).

``path`` of a RotatingFile is the current part. A complete part is renamed with the next number before its suffixes:
``kafka.jsonl`` becomes ``kafka.000007.jsonl``. File names never come from traffic; links are not followed, existing files are not
opened, and only the owner may read. If another program renames, removes or truncates the current part (logrotate), a new part is
begun. A full disk or a removed folder never blocks the caller.
"""

import os
import re
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from kproxy.errors import OutputClosed, UsageError

BLOCK = 256 * 1024


class Writable(Protocol):
    """Where outputs write bytes: a Sink or a RotatingFile."""

    def write(self, data: bytes, /) -> object:
        """Write or buffer one or more complete lines or blocks."""

    def flush(self) -> None:
        """Write what is buffered."""

    def close(self, error: BaseException | None = None) -> None:
        """Flush and close the file."""


class Closing(ABC):
    """Closes at the end of a ``with`` block."""

    @abstractmethod
    def close(self, error: BaseException | None = None) -> None:
        """Write the rest and release files; *error* is what ended the writing early, if anything did."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


class Sink(Closing):
    """Buffers lines and writes them in blocks. Use it as a context manager, or close it; both flush.

    Args:
        path: None for standard output, which stays open; an existing file is replaced.
        live: write every line immediately.
    """

    def __init__(self, path: Path | None, *, live: bool) -> None:
        self._file = _open(path)
        self._name = str(path or "standard output")
        self._owned = path is not None
        self._live = live
        self._buffered: list[bytes] = []
        self._size = 0

    def write(self, line: bytes) -> None:
        self._buffered.append(line)
        self._size += len(line)
        if self._live or self._size >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write buffered lines. Raises OutputClosed if the reading end of the pipe is closed (``| head``), else OSError."""
        buffered, self._buffered, self._size = self._buffered, [], 0
        with self._errors_with_name():
            self._file.write(b"".join(buffered))
            self._file.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Flush, unless *error* is about writing itself, and close the file."""
        try:
            if not isinstance(error, OutputClosed):
                self.flush()
        finally:
            if self._owned:
                with self._errors_with_name():
                    self._file.close()

    @contextmanager
    def _errors_with_name(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            forget_output()
            raise OutputClosed from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error


def check_output(path: Path | None, inputs: list[Path]) -> None:
    """Raise UsageError if writing to *path* would overwrite an input or cannot work, before any file is touched."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory; -o wants a file")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{path} is also an input; give -o another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        why = (
            "cannot be written: Permission denied"
            if path.parent.is_dir()
            else "cannot be created: its folder does not exist"
        )
        raise UsageError(f"{path} {why}")


def _open(path: Path | None) -> BinaryIO:
    if path is None:
        if sys.stdout is None:  # closed by the shell: >&-
            raise UsageError("standard output is closed")
        return sys.stdout.buffer
    try:
        return path.open("wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def forget_output() -> None:
    """Redirect standard output to /dev/null after its pipe was closed, or the interpreter's final flush would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


RETRY = 1.0  # seconds until a file that could not be written is tried again
REPORT_AGAIN = 60.0  # seconds until the failure is reported again
LOOK = (
    1.0  # seconds between checks whether the part was renamed, removed or truncated; unbuffered files check each time
)
# O_APPEND: a file that another program truncates (logrotate's copytruncate) gets no hole of zeros
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OWNER_ONLY = 0o600

Report = Callable[[str], None]


class RotatingFile:
    """A file in parts that never end inside a piece. No method raises for disk errors: lost bytes are counted as dropped.

    After a failure the part is closed behind its last complete piece; the next part is begun when writing works again. Old
    parts are removed only once the new part holds something, and an empty part gets no number, so that retries on a full disk
    do not push out older data.

    Args:
        path: the current part; an existing file of that name is numbered first.
        most_size, most_age: bytes and seconds after which a new part is begun.
        keep: number of parts to keep, including the current one; the oldest are removed.
        clock: returns seconds.
        report: called at most once a minute with the reason why writing fails.
        begin_part: called for each new part; returns the bytes at its beginning.
        block: bytes to buffer before they are written, unless ``flush`` is called.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_size: int,
        most_age: float,
        keep: int,
        clock: Callable[[], float],
        report: Report,
        begin_part: Callable[[], bytes] = bytes,
        block: int = 262_144,
    ) -> None:
        self.path = path
        self.written = 0  # bytes, of all parts
        self.dropped = 0  # bytes that could not be written
        self.failures = 0
        self.flushes = 0  # number of times the buffer was written
        self.reason = ""  # of the latest failure
        self.discards = 0  # number of times the buffer was dropped
        self._most_size = most_size
        self._most_age = most_age
        self._keep = max(1, keep)
        self.begin_part = begin_part
        self._clock = clock
        self._report = report
        self._block = block
        self._buffered: list[bytes] = []
        self._fd: int | None = None
        self._written = 0  # bytes of the part on the disk
        self._size = 0  # bytes of the part, including buffered ones
        self._start_size = 0  # bytes from begin_part
        self._is_empty = False  # the part holds only the bytes from begin_part
        self._began = 0.0
        self._identity = (0, 0)  # device and inode of the part
        self._look_at = 0.0
        self._retry_at = 0.0
        self._report_at = 0.0
        name, _, suffixes = path.name.partition(".")
        self._suffixes = f".{suffixes}" if suffixes else ""
        self._stem = name
        self._numbered = re.compile(rf"{re.escape(name)}\.(\d{{6,18}}){re.escape(self._suffixes)}")

    def is_open(self) -> bool:
        """Return whether there is a part to write to; begins a new part if one is due. False after a failure."""
        now = self._clock()
        if now < self._look_at and self._size < self._most_size and self._fd is not None:
            return True  # nearly always
        if self._fd is not None:
            is_replaced = now >= self._look_at and self._is_replaced(now)
            if self._size < self._most_size and now - self._began < self._most_age and not is_replaced:
                return True
            if self._size == self._start_size and not is_replaced:  # old, and nothing in it
                self._began = now
                return True
            self.flush()
        if now < self._retry_at:
            return False
        try:
            self._next_part(now)
        except OSError as error:
            self._failed(error)
        return self._fd is not None

    def write(self, data: bytes) -> bool:
        """Write one or more complete pieces; return False if they were dropped, and counted."""
        if self.is_open():
            return self.append(data)
        self.dropped += len(data)
        return False

    def append(self, data: bytes) -> bool:
        """As ``write``, to the current part whatever its size and age, after ``is_open`` returned True."""
        self._buffered.append(data)
        self._size += len(data)
        if self._size - self._written >= self._block:
            self.flush()
            return self._fd is not None
        return True

    def flush(self) -> None:
        if not self._buffered:
            return
        data = b"".join(self._buffered)
        self._buffered.clear()
        try:
            self._write(data)
        except OSError as error:
            self.discards += 1
            self.dropped += len(data)
            self._failed(error)
            return
        self.flushes += 1
        if self._is_empty:
            self._is_empty = False
            with suppress(OSError):
                self._remove_excess()

    @property
    def is_flushed(self) -> bool:
        return not self._buffered

    @property
    def part(self) -> tuple[int, int]:
        """Inode and size on disk of the current part; (0, 0) while there is none."""
        return (0, 0) if self._fd is None else (os.fstat(self._fd).st_ino, self._written)

    def close(self, error: BaseException | None = None) -> None:
        """Flush and close the part; it keeps its name until a new part is begun."""
        self.flush()
        self._close()

    def parts(self) -> list[Path]:
        """Return the numbered parts, oldest first. Raises OSError."""
        names = [entry.name for entry in os.scandir(self.path.parent) if self._numbered.fullmatch(entry.name)]
        return [self.path.parent / name for name in sorted(names, key=self._number)]

    def _is_replaced(self, now: float) -> bool:
        """Return whether another program renamed, removed or truncated the part."""
        self._look_again(now)
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return True
        except OSError:  # unknown
            return False
        return (status.st_dev, status.st_ino) != self._identity or status.st_size < self._written

    def _look_again(self, now: float) -> None:
        self._look_at = min(now + LOOK, self._began + self._most_age) if self._block > 1 else now

    def _number(self, name: str) -> int:
        match = self._numbered.fullmatch(name)
        return int(match[1]) if match is not None else 0

    def _next_part(self, now: float) -> None:
        self._close()
        self._retire()
        self._fd = os.open(self.path, FLAGS, OWNER_ONLY)
        opened = os.fstat(self._fd)
        self._identity = (opened.st_dev, opened.st_ino)
        self._written, self._began, self._is_empty = 0, now, True
        self._look_again(now)
        try:
            self._write(self.begin_part())
        except OSError:
            self.path.unlink(missing_ok=True)
            raise
        self._start_size = self._size = self._written

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _retire(self) -> None:
        """Number the file at *path*, or remove it if it is an empty part of ours."""
        try:
            existing = os.lstat(self.path)
        except FileNotFoundError:
            existing = None
        if existing is not None and stat.S_ISDIR(existing.st_mode):
            raise IsADirectoryError(21, "is a directory", str(self.path))
        if existing is not None and self._is_empty and (existing.st_dev, existing.st_ino) == self._identity:
            self.path.unlink()
        elif existing is not None and stat.S_ISREG(existing.st_mode) and not existing.st_size:
            self.path.unlink()  # an empty file of the program that renamed or truncated the part
        elif existing is not None:
            parts = self.parts()
            number = 1 + (self._number(parts[-1].name) if parts else 0)
            self.path.rename(self.path.with_name(f"{self._stem}.{number:06d}{self._suffixes}"))

    def _remove_excess(self) -> None:
        """Remove the oldest parts beyond the number to keep. Raises OSError."""
        parts = self.parts()
        for part in parts[: max(len(parts) - (self._keep - 1), 0)]:
            part.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        """Write all of *data* or nothing: a partial write is truncated again. Raises OSError."""
        assert self._fd is not None
        done = 0
        view = memoryview(data)
        try:
            while done < len(view):
                done += os.write(self._fd, view[done:])
        except OSError:
            if os.fstat(self._fd).st_size > self._written:
                os.ftruncate(self._fd, self._written)
            raise
        self._written += done
        self.written += done

    def fail(self, error: OSError) -> None:
        """Treat an error elsewhere like a failure to write: drop the buffer, and try again later."""
        self._failed(error)

    def _failed(self, error: OSError) -> None:
        now = self._clock()
        self.failures += 1
        self.reason = error.strerror or str(error)
        self._retry_at = now + RETRY
        with suppress(OSError):
            self._close()
        if now >= self._report_at:
            self._report_at = now + REPORT_AGAIN
            self._report(f"{self.reason}; trying again every second")
