"""Read a decoded log, which ``--format jsonl`` and ``kproxy run --log`` write, line by line; or tell it from a capture."""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import TracebackType
from typing import Self

from kproxy.capture import Capture
from kproxy.capture.files import ByteSource, PlainSource, name_of, open_source
from kproxy.errors import CaptureError
from kproxy.output.jsonl import START
from kproxy.output.times import render_size

READ = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024  # bodies beyond 16 MB of JSON are not opened, and such a line is memory many times over
LONGEST_FIRST = 1024 * 1024  # bytes of a first line in which "event" is looked for
MOST_NAMED = 10  # lines of one file that are named because they could not be read
EVENT = re.compile(rb'\{\s*"event"\s*:\s*"')


class DecodedLog:
    """An open decoded log. Iterate it, once, for its lines with their newlines; memory is bounded by the longest of them.

    ``damages`` lists which lines could not be read and why, and where the file itself could not be read on.
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self.name = name
        self.position = 0  # bytes read, after decompression
        self._source = source
        self._buffer = bytearray(READ)
        self._number = 0  # of the line given last
        self._stopped = False
        self._unended = False  # that line is the last one, and its newline is missing
        self._pieces: list[bytes] = []
        self._line_size = 0
        self._named: list[str] = []
        self._unnamed = 0
        self._damage: CaptureError | None = None

    def __iter__(self) -> Iterator[bytes]:
        while not self._stopped and (chunk := self._read()):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self._add(end + b"\n")
                yield from self._line()
            self._add(rest)
        if self._stopped:
            self.position -= self._line_size
            return
        self._unended = self._line_size > 0
        if self._damage is None:
            yield from self._line()

    def stop(self) -> None:
        """Read no further: the log ends at *position*, as if the file did, once the lines before it were given."""
        self._stopped = True

    def refuse(self, reason: str) -> None:
        """Remember that the line given last cannot be read."""
        self._add_damage("the file ends within this line" if self._unended else f"{reason}, passed over")

    @property
    def damages(self) -> list[str]:
        """What could not be read, in sentences; empty when all could."""
        more = [f"{self.name}: and {self._unnamed:,} more lines"] if self._unnamed else []
        return [*self._named, *more, *([str(self._damage)] if self._damage is not None else [])]

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add_damage(self, what: str) -> None:
        if len(self._named) < MOST_NAMED:
            self._named.append(f"{self.name}: line {self._number}: {what}")
        else:
            self._unnamed += 1

    def _read(self) -> bytes:
        try:
            count = self._source.readinto(memoryview(self._buffer))
        except CaptureError as error:
            self._damage, count = error, 0
        self.position += count
        return bytes(self._buffer[:count])

    def _add(self, piece: bytes) -> None:
        self._line_size += len(piece)
        if self._line_size > LONGEST_LINE:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def _line(self) -> Iterator[bytes]:
        """The line that the pieces make up, unless it is too long, or blank."""
        size, line = self._line_size, b"".join(self._pieces)
        self._pieces, self._line_size = [], 0
        self._number += size > 0
        if size > LONGEST_LINE:
            self.refuse(f"has {render_size(size)}; of more than {render_size(LONGEST_LINE)} none is read")
        elif line.strip():
            yield line if line.endswith(b"\n") else line + b"\n"


def open_input(file: Path) -> Capture | DecodedLog:
    """Open a capture or a decoded log, "-" for standard input; the content decides which it is.

    Raises:
        CaptureError: it cannot be opened, or is neither.
    """
    return open_stream(open_source(file), name_of(file))


def open_stream(stream: ByteSource, name: str) -> Capture | DecodedLog:
    """As ``open_input``, of decompressed bytes from anywhere; the stream is closed with what is returned, or on an error."""
    source = PlainSource(stream, name)
    try:
        if _is_log(source, PurePath(name)):
            return DecodedLog(source, name)
        if source.peek(1) == b"{":
            raise CaptureError(f'{name}: line 1: neither a capture nor a line of a decoded log, an object with "event"')
        return Capture(source, name)
    except CaptureError:
        source.close()
        raise


def _is_log(source: PlainSource, file: PurePath) -> bool:
    """Whether the first line, or what exists of it, is an object with "event". No capture begins with a brace."""
    first = source.peek(1)
    if first != b"{":
        return first == b"" and ".jsonl" in file.suffixes  # a part that was just begun
    size = len(START)
    start = source.peek(size)
    if EVENT.match(start):
        return True
    while b"\n" not in start and len(start) == size < LONGEST_FIRST:
        size *= 2
        start = source.peek(size)
    if EVENT.match(start):
        return True
    try:
        row = json.loads(start.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(row.get("event"), str)
