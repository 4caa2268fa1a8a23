"""Write bytes to standard output or to a file, in blocks or line by line."""

import os
import sys
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


class Sink:
    """Buffers lines and writes them in blocks. Use it as a context manager, or close it; both flush.

    Args:
        path: None for standard output, which stays open; an existing file is replaced.
        live: write every line immediately.
    """

    def __init__(self, path: Path | None, *, live: bool) -> None:
        self._file = _open(path)
        self._owned = path is not None
        self._live = live
        self._buffered: list[bytes] = []
        self._size = 0

    def write(self, line: bytes) -> None:
        """Write one or more complete lines."""
        self._buffered.append(line)
        self._size += len(line)
        if self._live or self._size >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write buffered lines. Raises OutputClosed if the reading end of the pipe is closed (``| head``)."""
        buffered, self._buffered, self._size = self._buffered, [], 0
        try:
            self._file.write(b"".join(buffered))
            self._file.flush()
        except BrokenPipeError:
            forget_output()
            raise OutputClosed from None

    def close(self, error: BaseException | None = None) -> None:
        """Flush, unless *error* is about writing itself, and close the file."""
        try:
            if not isinstance(error, OutputClosed):
                self.flush()
        finally:
            if self._owned:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


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
        why = "cannot be written" if path.parent.is_dir() else "cannot be created: its folder does not exist"
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
