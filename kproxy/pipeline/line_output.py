"""Write events as lines, of text or of the decoded log, to a file, a pipe, or a file in parts."""

from collections.abc import Callable
from typing import TypeAlias

from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.pipeline.output import Output
from kproxy.pipeline.sink import Writable
from kproxy.session import Event

Render: TypeAlias = Callable[[Event, Bodies | None], bytes]  # the line or lines of an event, newline included


class Lines(Output):
    """Each event that is shown as the line or lines that *render* makes of it. *sink* is closed with the output."""

    reads_bodies = True
    needs_frames = False

    def __init__(self, render: Render, sink: Writable) -> None:
        self.render = render
        self._sink = sink
        self._is_log = render is event_line
        self._to_skip = 0  # bytes

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output. A line of a decoded log that becomes one again stays as it is, to the byte."""
        if shown:
            self.write_lines(line if line is not None and self._is_log else self.render(event, bodies))

    def write_lines(self, lines: bytes) -> None:
        """Write lines that were rendered elsewhere."""
        if self._to_skip:
            skipped = min(self._to_skip, len(lines))
            self._to_skip -= skipped
            lines = lines[skipped:]
        self._sink.write(lines)

    def skip(self, size: int) -> None:
        """Do not write the next *size* bytes: they are written already."""
        self._to_skip = size

    def flush(self) -> None:
        """See Output."""
        self._sink.flush()

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""
        self._sink.close(error)
