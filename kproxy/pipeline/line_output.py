"""Write events as lines, of text or of the decoded log, to a file, a pipe, or a file in parts."""

import heapq
from collections.abc import Callable
from typing import TypeAlias

from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.pipeline.output import Output, Source
from kproxy.pipeline.sink import Writable
from kproxy.session import Event

Render: TypeAlias = Callable[[Event, Bodies | None], bytes]  # the line or lines of an event, newline included
TimeOf: TypeAlias = Callable[[Event], int]  # in ns
LOOK_BACK = 300 * 1_000_000_000  # ns; a JoinGroup may wait this long for its response (max.poll.interval.ms)
MOST_HELD = 16 * 1024 * 1024  # bytes of lines


class Lines(Output):
    """Writes the line or lines that *render* makes of each shown event to *sink*, which is closed with the output."""

    reads_bodies = True
    needs_frames = False

    def __init__(self, render: Render, sink: Writable) -> None:
        self.render = render
        self._sink = sink
        self._is_log = render is event_line
        self._to_skip = 0  # bytes

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output. From decoded log to decoded log, lines are copied byte for byte."""
        if shown:
            self.write_lines(line if line is not None and self._is_log else self.render(event, bodies), event)

    def write_lines(self, lines: bytes, event: Event | None = None) -> None:
        """Write lines that the caller has rendered, of *event* if given."""
        if self._to_skip:
            lines = self._without_skipped(lines)
        if lines:
            self._sink.write(lines)

    def write_at(self, lines: list[tuple[int, bytes]]) -> None:
        """Write lines that the caller has rendered, each with the time of its event."""
        self.write_lines(b"".join([line for _, line in lines]))

    def time_of(self, event: Event) -> int:
        """Return the time that decides the place of an event's line; 0 if lines are written as they come."""
        return 0

    def skip(self, size: int) -> None:
        """Do not write the next *size* bytes, which were written before."""
        self._to_skip = size

    def flush(self) -> None:
        self._sink.flush()

    def close(self, error: BaseException | None = None) -> None:
        self._sink.close(error)

    def _without_skipped(self, lines: bytes) -> bytes:
        skipped = min(self._to_skip, len(lines))
        self._to_skip -= skipped
        return lines[skipped:]


class ListedLines(Lines):
    """Lines for a person: in the order of their times within each source, and no more than wanted.

    A line is written when the newest one is LOOK_BACK later, or when MOST_HELD bytes of lines are held. A line that arrives after
    later ones were written is out of order.

    Args:
        time_of: the time of an event; None to write lines as they come.
        most: events whose lines are written; None for all.
        on_first: called with the time of the first line, before it is written.
    """

    def __init__(
        self,
        render: Render,
        sink: Writable,
        *,
        time_of: TimeOf | None = None,
        most: int | None = None,
        on_first: Callable[[int], None] = lambda at: None,
    ) -> None:
        super().__init__(render, sink)
        self._time_of = time_of
        self._left = most
        self._on_first: Callable[[int], None] | None = on_first
        self._held: list[tuple[int, int, bytes]] = []  # a heap of time, number, lines
        self._held_size = 0
        self._number = 0
        self._newest = 0

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if shown:  # one call less than in the base class
            lines = line if line is not None and self._is_log else self.render(event, bodies)
            self._add(0 if self._time_of is None else self._time_of(event), lines)

    def start_source(self, source: Source) -> None:
        self._release_all()
        self._newest = 0

    def write_lines(self, lines: bytes, event: Event | None = None) -> None:
        self._add(0 if event is None or self._time_of is None else self._time_of(event), lines)

    def write_at(self, lines: list[tuple[int, bytes]]) -> None:
        for at, line in lines:
            self._add(at, line)

    def time_of(self, event: Event) -> int:
        return 0 if self._time_of is None else self._time_of(event)

    def close(self, error: BaseException | None = None) -> None:
        try:
            self._release_all()
        finally:
            super().close(error)

    def _add(self, at: int, lines: bytes) -> None:
        if self._to_skip:
            lines = self._without_skipped(lines)
        if not lines:
            return
        if self._time_of is None:
            self._put(at, lines)
            return
        heapq.heappush(self._held, (at, self._number, lines))
        self._number += 1
        self._held_size += len(lines)
        self._newest = max(self._newest, at)
        if self._held_size > MOST_HELD or self._held[0][0] < self._newest - LOOK_BACK:
            self._release(self._newest - LOOK_BACK)

    def _release(self, before: int) -> None:
        """Write the oldest held lines until the rest has at most MOST_HELD bytes and no line is from before a time."""
        while self._held and (self._held_size > MOST_HELD or self._held[0][0] < before):
            at, _, lines = heapq.heappop(self._held)
            self._held_size -= len(lines)
            self._put(at, lines)

    def _release_all(self) -> None:
        held, self._held, self._held_size = sorted(self._held), [], 0
        for at, _, lines in held:
            self._put(at, lines)

    def _put(self, at: int, lines: bytes) -> None:
        if self._on_first is not None:
            self._on_first(at)
            self._on_first = None
        if self._left != 0:
            self._left = None if self._left is None else self._left - 1
            self._sink.write(lines)
