"""What every destination of events is: the Output class, the sources that events come from, and how connections end.

To add an output, write one class derived from Output in a module beside line_output.py (or anywhere: the analyzer's counts
are one), and choose it: for ``kproxy decode --format`` kproxy/cli/formats.py (a member of Format, a function that makes
it, its line in OUTPUTS), for the analyzer FILES in kproxy/proxy/analyzer/process.py and a field of config.Analysis, in a
program of your own ``Run(outputs=[...])``.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from msgspec import Struct

from kproxy.output.bodies import Bodies
from kproxy.session import Connection, Event

# By direction: the side that sends requests, and the one that sends responses
SIDES = CLIENT, BROKER = "client", "broker"


class Source(Struct, frozen=True):
    """Where events come from: a capture, a decoded log, the tap of one worker.

    The number tells the sources of a run apart. Numbers of connections are unique within a source; within a whole run only
    where the sources are files.
    """

    number: int
    name: str


class End(Struct, frozen=True):
    """One side of a connection, or all of it, has ended."""

    connection: int  # its number in the source
    at: int  # ns since the epoch
    side: str | None = None  # the side that sends no more; None: the whole connection has ended
    reason: str | None = None  # of the whole connection: a CloseReason


class Output(ABC):
    """A destination of events. A Run calls it in one thread, in this order:

        start_source  before the first event of a source; again whenever the source changes
        write         for each event
        begin         for each live connection, before its first event
        end           after the last event of a side of a connection, and of the connection
        flush         when what is buffered should become visible (a live source is idle, or a second has passed)
        close         once, at the end

    Exceptions of ``write`` end the run, or only the connection that the event is of, as Options.contain says.
    """

    reads_bodies = False  # True: ``write`` is given the bodies of every exchange that is shown
    needs_frames = True  # False: events of a decoded log will do, whose frames have sizes and times but no bytes

    @abstractmethod
    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Write one event.

        Args:
            event: the event; it may be kept.
            bodies: of an exchange, where the condition or an output needs them: they are read once for all.
            shown: False where Options.where is false for it; only counters want such an event.
            line: of a decoded log: the line that the event was read from, newline included.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write what is buffered."""

    @abstractmethod
    def close(self, error: BaseException | None = None) -> None:
        """Write what is left and release files; *error* is what ended the run early, if anything did."""

    def start_source(self, source: Source) -> None:  # noqa: B027 - not every output names its sources
        """Learn which source the events from now on come from."""

    def begin(self, connection: Connection, at: int) -> None:  # noqa: B027 - only of live sources; its first event tells as much
        """Learn that a live connection has begun, at a time in ns; before its first event."""

    def end(self, end: End) -> None:  # noqa: B027 - not every output shows how connections end
        """Learn that a side of a connection, or all of it, has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


class Observer(Output):
    """An output that keeps no bytes to be written: it counts, or collects."""

    needs_frames = False

    def flush(self) -> None:
        """See Output."""

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""
