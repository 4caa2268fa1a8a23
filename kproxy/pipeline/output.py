"""Output, the interface of every destination of events; Source, where events come from; End, how connections end.

To add an output, derive one class from Output, in this package (line_output.py is the shortest example) or anywhere else (the
analyzer's counts are one). Then register it:

    kproxy decode --format NAME     kproxy/cli/formats.py: a member of Format, a function that makes it, its line in OUTPUTS
    kproxy run                      kproxy/proxy/analyzer/process.py: its line in FILES, and a field of config.Analysis
    a program of your own           Run(outputs=[...])
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.output.bodies import Bodies
from kproxy.pipeline.sink import Closing
from kproxy.session import Connection, Event

if TYPE_CHECKING:
    from kproxy.protocol.embedded.viewers import Viewers

# By direction: the side that sends requests, the side that sends responses
SIDES = CLIENT, BROKER = "client", "broker"


class Source(Struct, frozen=True):
    """Where events come from: a capture, a decoded log, the tap of one worker.

    The number identifies the source in a run. Connection numbers are unique within a source; across sources only for files.
    """

    number: int
    name: str
    viewers: "Viewers | None" = None  # show the records of all topics; None without Options.records


class End(Struct, frozen=True):
    """A connection, or one side of it, has ended."""

    connection: int  # its number in the source
    at: int  # ns since the epoch
    side: str | None = None  # the side that has sent its FIN or RST; None: the connection has ended
    reason: str | None = None  # why the connection has ended: a CloseReason


class Output(Closing):
    """A destination of events. A Run calls it in one thread, in this order:

        start_source  before the first event of a source; again whenever the source changes
        write         for each event
        begin         for each live connection, before its first event
        end           after the last event of one side of a connection, and of the connection
        flush         when buffered data should become visible (a live source is idle, or a second has passed)
        close         once, at the end

    An exception in ``write`` ends the run, or only the event's connection: see Options.contain.
    """

    reads_bodies = False  # True: ``write`` gets the bodies of every shown exchange
    needs_frames = True  # False: works for events of a decoded log, whose frames have sizes and times but no bytes

    @abstractmethod
    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Write one event.

        Args:
            event: the event; the output may keep it.
            bodies: an exchange's bodies, decoded once for all, if the condition or an output needs them.
            shown: False if Options.where is false for the event; only counters use such events.
            line: for a decoded log, the line that the event was read from, with its newline.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write buffered data."""

    def start_source(self, source: Source) -> None:
        """Note that the next events come from *source*."""

    def begin(self, connection: Connection, at: int) -> None:
        """Note that a live connection began at a time in ns; called before its first event."""

    def end(self, end: End) -> None:
        """Note that a connection, or one side of it, has ended."""


class Observer(Output):
    """An output that counts or collects, and so has nothing to flush or close."""

    needs_frames = False

    def flush(self) -> None:
        pass

    def close(self, error: BaseException | None = None) -> None:
        pass
