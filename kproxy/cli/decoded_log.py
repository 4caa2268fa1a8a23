"""A decoded log as input of ``kproxy decode``: what ``--format jsonl`` and ``kproxy run --log`` wrote, line by line."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from kproxy.capture import Capture
from kproxy.capture.files import STANDARD_INPUT, ByteSource, PlainSource, open_source
from kproxy.cli.summary import Summary
from kproxy.errors import CaptureError
from kproxy.output.bodies import Bodies
from kproxy.output.escaping import printable
from kproxy.output.from_jsonl import ODD, START, LogReader
from kproxy.output.times import render_size
from kproxy.output.where import Where
from kproxy.session import Event, Exchange

READ = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024  # bodies beyond 16 MB of JSON are not opened, and such a line is memory many times over
LONGEST_FIRST = 1024 * 1024  # of a first line that is looked for "event"
MOST_TOLD = 10  # lines of one file that are named because they could not be read
EVENT = re.compile(rb'\{\s*"event"\s*:\s*"')


class TakesLines(Protocol):
    """Where the events of a decoded log go."""

    def take_line(self, line: bytes, event: Event, bodies: Bodies | None) -> None:
        """Take an event that is to be shown, and the line that it is of, newline included."""


class DecodedLog:
    """An open decoded log. Iterating gives its lines, once, with their newlines; memory is bounded by the longest of them.

    ``damages`` says which lines could not be read and why, and where the file itself could not be read on.
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self.name = name
        self.position = 0  # bytes read, after decompression
        self._source = source
        self._buffer = bytearray(READ)
        self._number = 0  # of the line given last
        self._unended = False  # that line is the last one, and its newline is missing
        self._held: list[bytes] = []
        self._held_size = 0
        self._told: list[str] = []
        self._not_told = 0
        self._damage: CaptureError | None = None

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._read():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self._hold(end + b"\n")
                yield from self._line()
            self._hold(rest)
        self._unended = self._held_size > 0
        if self._damage is None:
            yield from self._line()

    def refuse(self, reason: str) -> None:
        """Remember that the line given last cannot be read."""
        self._tell("the file ends within this line" if self._unended else f"{reason}, passed over")

    @property
    def damages(self) -> list[str]:
        """What could not be read, in sentences; empty when all could."""
        more = [f"{self.name}: and {self._not_told:,} more lines"] if self._not_told else []
        return [*self._told, *more, *([str(self._damage)] if self._damage is not None else [])]

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, what: str) -> None:
        if len(self._told) < MOST_TOLD:
            self._told.append(f"{self.name}: line {self._number}: {what}")
        else:
            self._not_told += 1

    def _read(self) -> bytes:
        try:
            count = self._source.readinto(memoryview(self._buffer))
        except CaptureError as error:
            self._damage, count = error, 0
        self.position += count
        return bytes(self._buffer[:count])

    def _hold(self, piece: bytes) -> None:
        self._held_size += len(piece)
        if self._held_size > LONGEST_LINE:
            self._held.clear()
        elif piece:
            self._held.append(piece)

    def _line(self) -> Iterator[bytes]:
        """What is held as a line, if it is one that is not too long, nor blank."""
        size, line = self._held_size, b"".join(self._held)
        self._held, self._held_size = [], 0
        self._number += size > 0
        if size > LONGEST_LINE:
            self.refuse(f"has {render_size(size)}; of more than {render_size(LONGEST_LINE)} none is read")
        elif line.strip():
            yield line if line.endswith(b"\n") else line + b"\n"


def open_input(file: Path) -> Capture | DecodedLog:
    """Open a capture or a decoded log, "-" for standard input; which it is is told by content.

    Raises:
        CaptureError: it cannot be opened, or is neither.
    """
    name = "standard input" if str(file) == STANDARD_INPUT else str(file)
    source = PlainSource(open_source(file), name)
    try:
        if _is_log(source, file):
            return DecodedLog(source, name)
        if source.peek(1) == b"{":
            raise CaptureError(f'{name}: line 1: neither a capture nor a line of a decoded log, an object with "event"')
        return Capture(source, name)
    except CaptureError:
        source.close()
        raise


def _is_log(source: PlainSource, file: Path) -> bool:
    """Whether the first line is an object with "event", or as much as there is of it. No capture begins with a brace."""
    first = source.peek(1)
    if first != b"{":
        return first == b"" and ".jsonl" in file.suffixes  # a part just begun
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


def show_log(
    log: DecodedLog,
    reader: LogReader,
    condition: Where | None,
    summary: Summary,
    out: TakesLines,
    advance: Callable[[], None] | None,
) -> None:
    """Show the lines that *condition* is true for; a line that is none is passed over, and among ``log.damages``."""
    for line in log:
        try:
            event, bodies = reader.read(line)
            shown = condition is None or condition.holds_for(line)
            if shown:
                out.take_line(line, event, bodies)
        except CaptureError as error:
            log.refuse(str(error))
            continue
        except ODD as error:
            log.refuse(f"cannot be shown ({printable(str(error), 120)})")
            continue
        summary.count(event)
        summary.shown += shown and isinstance(event, Exchange)
        if advance is not None:
            advance()
