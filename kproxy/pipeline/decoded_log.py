"""Read decoded logs (written by ``--format jsonl`` and ``kproxy run --log``) line by line; tell them apart from captures."""

import heapq
import json
import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path, PurePath

from msgspec import Struct

from kproxy.capture import Capture
from kproxy.capture.merging import ReopenedFile
from kproxy.capture.reader import (
    BUFFER_SIZE,
    ByteSource,
    ClosedOnExit,
    PlainSource,
    RawFile,
    name_of,
    open_raw,
    open_source,
    see_through,
)
from kproxy.errors import CaptureError, UsageError
from kproxy.output.jsonl import START
from kproxy.output.times import render_size

READ = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024  # kproxy opens bodies up to 16 MB of JSON; decoding a line takes several times its size
LONGEST_FIRST = 1024 * 1024  # bytes of the first line searched for "event"
MOST_NAMED = 10  # unreadable lines of one file that are named in ``damages``
EVENT = re.compile(rb'\{\s*"event"\s*:\s*"')
TIME = re.compile(rb'"(?:requestAt|responseAt|at)"\s*:\s*"(\d{4}-[^"]{1,32})"')
LONGEST_START = 2048  # bytes of a line searched for its times


class DecodedLog(ClosedOnExit):
    """An open decoded log. Iterate it once, for its lines with their newlines; it holds one line at a time.

    ``damages`` lists which lines could not be read and why, and where reading the file itself failed.
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self.name = name
        self.position = 0  # bytes read, after decompression
        self._source = source
        self._buffer = bytearray(READ)
        self._number = 0  # of the latest line
        self._stopped = False
        self._unended = False  # the latest line is the last one and lacks its newline
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
        """Read no further: the log ends at *position*, after the lines before it, as if the file ended there."""
        self._stopped = True

    def refuse(self, reason: str) -> None:
        """Record that the latest line cannot be read, and why."""
        self._add_damage("the file ends within this line" if self._unended else f"{reason}, passed over")

    @property
    def damages(self) -> list[str]:
        more = [f"{self.name}: and {self._unnamed:,} more lines"] if self._unnamed else []
        return [*self._named, *more, *([str(self._damage)] if self._damage is not None else [])]

    def close(self) -> None:
        self._source.close()

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
        """Yield the line made of the pieces, unless it is blank or too long."""
        size, line = self._line_size, b"".join(self._pieces)
        self._pieces, self._line_size = [], 0
        self._number += size > 0
        if size > LONGEST_LINE:
            self.refuse(f"has {render_size(size)}; lines longer than {render_size(LONGEST_LINE)} are not read")
        elif line.strip():
            yield line if line.endswith(b"\n") else line + b"\n"


class LogFile(Struct, frozen=True, order=True):
    """A decoded log, as far as its first line: the time of that."""

    first_at: bytes
    path: Path

    @property
    def is_empty(self) -> bool:
        """Whether there is no line with a time."""
        return not self.first_at


class MergedLog(ClosedOnExit):
    """Several decoded logs that are read as one DecodedLog: their lines in the order of their times.

    The time of a line is the latest one in its beginning, since a line is written when the response comes. Each log keeps its
    own order, and is read from the time of its first line on; a file is open only while it is read.
    """

    def __init__(self, files: Sequence[LogFile]) -> None:
        self.name = str(files[0].path)
        self.damages: list[str] = []
        self._files = sorted(files)
        self._open: list[DecodedLog] = []
        self._latest: DecodedLog | None = None
        self._read = 0  # bytes of the logs that were read to their end
        self._stopped = False

    @property
    def position(self) -> int:
        """Bytes read so far, after decompression."""
        return self._read + sum(log.position for log in self._open)

    @property
    def file_position(self) -> int:
        """The same: bytes before decompression are not counted."""
        return self.position

    def __iter__(self) -> Iterator[bytes]:
        for _, log, line in heapq.merge(*map(self._lines, self._files), key=itemgetter(0)):
            if log is not None:
                self._latest = log
                yield line

    def _lines(self, file: LogFile) -> Iterator[tuple[bytes, DecodedLog | None, bytes]]:
        """Yield the lines of a log with their times, and before them the time of the first one, without opening the log."""
        at = file.first_at
        yield at, None, b""
        if self._stopped:
            return
        try:
            log = DecodedLog(see_through(ReopenedFile(file.path), name_of(file.path)), name_of(file.path))
        except CaptureError as error:  # it is gone
            self.damages.append(str(error))
            return
        self._open.append(log)
        for line in log:
            at = time_of_line(line) or at
            yield at, log, line
        self._open.remove(log)
        self._read += log.position
        self.damages += log.damages
        log.close()

    def stop(self) -> None:
        """Read no further, as DecodedLog.stop."""
        self._stopped = True
        for log in self._open:
            log.stop()

    def refuse(self, reason: str) -> None:
        """Record that the latest line cannot be read, and why."""
        assert self._latest is not None
        self._latest.refuse(reason)

    def close(self) -> None:
        for log in self._open:
            log.close()


def time_of_line(line: bytes) -> bytes:
    """Return the latest time in the beginning of a line, as it is written there; b"" if there is none."""
    return max(TIME.findall(line, 0, LONGEST_START), default=b"")


def open_input(file: Path) -> Capture | DecodedLog:
    """Open a capture or a decoded log ("-" is standard input); its content decides which one it is.

    Raises:
        CaptureError: it cannot be opened, or is neither.
    """
    return open_stream(open_source(file), name_of(file))


def open_named(file: Path, raw: RawFile | None = None) -> Capture | DecodedLog:
    """As ``open_input``, for a file that a person has named. Raises UsageError if it cannot be opened, or is neither.

    *raw*: the file, if it is open already.
    """
    name = name_of(file)
    try:
        return open_stream(see_through(open_raw(file) if raw is None else raw, name), name)
    except CaptureError as error:
        raise UsageError(str(error)) from error


def open_stream(stream: ByteSource, name: str, buffer_size: int = BUFFER_SIZE) -> Capture | DecodedLog:
    """As ``open_input``, for any stream of decompressed bytes; closing the result, or an error, closes the stream.

    *buffer_size*: of a capture, in bytes.
    """
    source = PlainSource(stream, name)
    try:
        if _is_log(source, PurePath(name)):
            return DecodedLog(source, name)
        if source.peek(1) == b"{":
            raise CaptureError(f'{name}: line 1: neither a capture nor a line of a decoded log, an object with "event"')
        return Capture(source, name, buffer_size)
    except CaptureError:
        source.close()
        raise


def _is_log(source: PlainSource, file: PurePath) -> bool:
    """Return whether the first line, or its beginning, is an object with "event". No capture begins with a brace."""
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
