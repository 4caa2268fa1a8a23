"""Write bytes to standard output or to a file: in blocks, or each line at once."""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from kproxy.errors import OutputClosed, UsageError

BLOCK = 256 * 1024


class Sink:
    """Buffers lines and writes them in blocks. Use it as a context manager; leaving it flushes.

    Args:
        path: None for standard output; an existing file is replaced.
        live: write every line at once.
    """

    def __init__(self, path: Path | None, *, live: bool) -> None:
        self._file: BinaryIO = sys.stdout.buffer if path is None else _open(path)
        self._owned = path is not None
        self._live = live
        self._held: list[bytes] = []
        self._size = 0

    def write(self, line: bytes) -> None:
        """Write one or more whole lines."""
        self._held.append(line)
        self._size += len(line)
        if self._live or self._size >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered. Raises OutputClosed when the reading end of the pipe is closed (``| head``)."""
        held, self._held, self._size = self._held, [], 0
        try:
            self._file.write(b"".join(held))
            self._file.flush()
        except BrokenPipeError:
            _forget_output()
            raise OutputClosed from None

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or not issubclass(kind, OutputClosed):
                self.flush()
        finally:
            if self._owned:
                self._file.close()


def check_output(path: Path | None, inputs: list[Path]) -> None:
    """Raise UsageError if writing to *path* would destroy an input or cannot work, before anything is touched."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory; -o wants a file")
    for given in inputs:
        if path.exists() and given.exists() and path.samefile(given):
            raise UsageError(f"{path} is read and written at once; give -o another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        why = "cannot be written" if path.parent.is_dir() else "cannot be made: its folder is not there"
        raise UsageError(f"{path} {why}")


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _forget_output() -> None:
    """Redirect standard output to /dev/null: the interpreter's last flush would fail otherwise."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
