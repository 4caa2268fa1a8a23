"""Run the engine: read sources with some options, write their events to outputs, keep counts, damages and faults.

    with Run(Options(where='apiName == "Fetch"'), [Lines(event_line, Sink(None, live=False)), summary]) as run:
        for path in paths:
            with open_input(path) as source:
                for _ in run.read(source):      # pauses after each event
                    ...

``kproxy decode``, the analyzer process and ``kproxy.read`` are each a Run with different sources and outputs. To add a source
that has an end, add a method like ``read_flow_items``; ``open_live`` serves live connections.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from kproxy.capture import Capture, Data, Doubts, FlowItem, MergedCapture, read_flows
from kproxy.capture.tls import KeyLog, KeyLogFile
from kproxy.errors import CaptureError
from kproxy.output.bodies import Opener, Protocols
from kproxy.output.escaping import printable
from kproxy.output.exchange_line import read_bodies
from kproxy.output.times import counted, render_duration
from kproxy.pipeline.connections import Clusters, Connections
from kproxy.pipeline.decoded_log import DecodedLog, MergedLog
from kproxy.pipeline.division import Division
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.inputs import Input
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.live_events import LiveEvents, write_event
from kproxy.pipeline.output import End, Output, Source
from kproxy.pipeline.sink import Closing
from kproxy.pipeline.tls_flow import Secrets
from kproxy.schemas.settings import SchemaSources
from kproxy.session import ClusterView, Connection, Event, Exchange, Limits

if TYPE_CHECKING:
    from kproxy.output.from_jsonl import LogReader
    from kproxy.output.where import Where
    from kproxy.protocol.embedded.viewers import Viewers
    from kproxy.schemas.store import Schemas

OnFault: TypeAlias = Callable[[int, BaseException], None]


class Options(Struct, frozen=True):
    """What a run does: plain values, so that a Spark driver can send them to its executors.

    Args:
        where: a CEL expression on the fields of the decoded log (kproxy.output.jsonl); events for which it is false are
            written with ``shown=False``.
        keylog: an NSS key log for TLS, in addition to those inside captures.
        records: decode the records of all topics in bodies, not only those of Kafka's internal topics.
        schemas: where the schemas of their keys and values come from.
        limits: for one connection.
        contain: exceptions that end only the connection in which they are raised, counted in ``Run.faults``. Others end the
            run. A person who decodes a file wants to know about a bug; a process that must go on contains it.
        most_connections, most_held: for each live source: open connections, and bytes held by all their sessions.
            kproxy.capture.Limits bounds them for captures.
    """

    where: str | None = None
    keylog: Path | None = None
    records: bool = False
    schemas: SchemaSources = SchemaSources()
    limits: Limits = field(default_factory=Limits)
    contain: tuple[type[BaseException], ...] = ()
    most_connections: int = 20_000
    most_held: int = 268_435_456


class Part(Struct, frozen=True):
    """The counts of a run over one part of a divided capture, for the run that joins the parts."""

    connections: int
    damages: list[str]
    notes: list[str]
    passed_over: dict[str, int]
    faults: dict[str, int]
    groups: dict[str, Protocols]
    keylog: tuple[int, int]  # lines with secrets, lines without


class Run(Closing):
    """Reads files one after the other, or live sources at the same time, and writes their events to the outputs.

    Use it as a context manager, or close it; that closes the outputs, too.

    Args:
        options: see Options.
        outputs: each gets every event, in this order.

    Raises UsageError for a wrong option.
    """

    def __init__(self, options: Options = Options(), outputs: Iterable[Output] = ()) -> None:  # noqa: B008 - frozen
        self.options = options
        self.condition = None if options.where is None else _compile(options.where)
        self.damages: list[str] = []  # where a source could not be read further, and why
        self.notes: list[str] = []  # of MergedCapture
        self.interrupted = False  # ``interrupt`` ended a source early
        self.packets_passed_over: dict[str, int] = {}  # in captures, by reason
        self.segments_again: int | None = 0  # of TCP, with bytes captured before; None once a log was read
        self.faults: dict[str, int] = {}  # failed flows of captures, by exception; live ones are in Connections.faults
        self.secrets = Secrets(None if options.keylog is None else _open_keylog(options.keylog))
        self.keylog = KeyLog(self.secrets.more)
        self.schemas = options.schemas.open() if options.records else None
        self._opener = Opener(None if self.schemas is None else _viewers(self.schemas))
        self._log_reader: LogReader | None = None  # made for the first log
        self._clusters = Clusters()
        self._outputs: list[Output] = []
        self._outputs_read_bodies = False
        self._reads_bodies = False  # an output or the condition needs bodies
        self.plain_outputs: list[Output] | None = self._outputs  # where ``write`` has nothing else to do: the outputs
        self._sources = 0
        self.source: Source | None = None  # the latest event's source
        self._connections = 0  # connection numbers used by files so far
        self._file: _File | None = None  # the file being read
        for output in outputs:
            self.add_output(output)

    # Outputs

    @property
    def outputs(self) -> list[Output]:
        return list(self._outputs)

    @property
    def viewers(self) -> "Viewers | None":
        """Return what shows the records; None without ``records``."""
        return self._opener.viewers

    def use_schemas(self, schemas: "Schemas | None") -> None:
        """Decode the records of the next events with these schemas; None: no records."""
        self.schemas = schemas
        self._opener.viewers = None if schemas is None else _viewers(schemas)

    def add_output(self, output: Output) -> None:
        """Write the next events to *output*, too. The run will close it."""
        self._outputs.append(output)
        self._outputs_changed()
        if self.source is not None:
            output.start_source(self.source)

    def remove_output(self, output: Output) -> None:
        """Stop writing events to *output*, which the caller closes."""
        self._outputs.remove(output)
        self._outputs_changed()

    def _outputs_changed(self) -> None:
        self._outputs_read_bodies = any(output.reads_bodies for output in self._outputs)
        condition_reads = self.condition is not None and self.condition.reads_bodies
        self._reads_bodies = self._outputs_read_bodies or condition_reads
        self.plain_outputs = None if self._reads_bodies or self.condition is not None else self._outputs

    # Sources that have an end

    def read(
        self,
        source: Input,
        *,
        name: str | None = None,
        wait_for_names: bool = True,
        cluster: ClusterView | None = None,
    ) -> Iterator[None]:
        """Read a source to its end; pause after each event, so that the caller can show progress or stop.

        Damage ends the source and is listed in ``damages``; the events before it are written.

        Args:
            name: the source's name for the outputs.
            wait_for_names: hold events back until their topics have names (late_names.py); False for live display.
            cluster: the topic names that the connections of a capture share; by default a new view.
        """
        if isinstance(source, DecodedLog | MergedLog):
            return self._read_log(source, name)
        self.secrets.read_from(source)
        return self._read_flows(
            read_flows(source),
            name or Path(source.name).name,
            source,
            wait_for_names=wait_for_names,
            cluster=cluster,
        )

    def read_part(
        self, source: Capture | MergedCapture, division: Division, *, name: str | None = None
    ) -> Iterator[None]:
        """As ``read``, for the connections that a Division gives to this run, in a process of its own."""
        self._opener = division.opener(self._opener)
        self.secrets.read_from(source)
        name = name or Path(source.name).name
        return self._read_flows(read_flows(source), name, source, wait_for_names=True, division=division)

    def begin_part(self, outputs: Iterable[Output]) -> None:
        """Replace the outputs, in a process forked for ``read_part``. Raises OSError (see Secrets.reopen)."""
        self._outputs = list(outputs)
        self._outputs_changed()
        self.faults.clear()
        self.secrets.reopen()

    def part(self) -> Part:
        """Return the counts of ``read_part``."""
        keylog = self.keylog.lines, self.keylog.passed_over
        groups = dict(self._opener.groups)
        return Part(self._connections, self.damages, self.notes, self.packets_passed_over, self.faults, groups, keylog)

    def add_parts(self, parts: list[Part]) -> None:
        """Add the counts of all parts of a capture, as if this run had read it."""
        self._sources += 1
        self._connections = max(part.connections for part in parts)
        self.damages = max((part.damages for part in parts), key=len)  # some differences only the flow's own part sees
        self.notes, self.packets_passed_over = parts[0].notes, parts[0].passed_over
        self.keylog.lines, self.keylog.passed_over = map(max, zip(*(part.keylog for part in parts), strict=True))
        for part in parts:
            for group_id, protocols in part.groups.items():
                self._opener.note_protocols(group_id, protocols)
            for name, count in part.faults.items():
                self.faults[name] = self.faults.get(name, 0) + count

    def read_flow_items(self, items: Iterator[FlowItem | Data], name: str = "") -> Iterator[None]:
        """Read reassembled flows from any origin, as ``read`` reads those of a capture."""
        return self._read_flows(items, name, None, wait_for_names=True)

    def read_connection(self, items: Iterator[FlowItem | Data], name: str, cluster: ClusterView) -> Iterator[None]:
        """Read one connection of a capture; its flows are numbered as in the capture.

        *cluster* holds what other connections have shown (topic names).
        """
        self._opener = Opener(self._opener.viewers)
        self._connections = 0
        return self._read_flows(items, name, None, wait_for_names=False, cluster=cluster)

    def interrupt(self) -> None:
        """Write the last events of the current source, after an exception (Ctrl-C) ended ``read``."""
        self.interrupted = True
        if self._file is not None:
            for event in self._file.flows.close():
                self._file.names.write(event)
            self._finish_file(self._file)

    # Live sources

    def open_live(self, name: str, on_fault: OnFault = lambda number, fault: None) -> Connections:
        """Return a new source of live connections for the caller to feed; several may be open at a time.

        *on_fault* is called with the number of a connection that failed with an exception of Options.contain.
        """
        live = LiveEvents(self, self._new_source(name), on_fault)
        return Connections(
            self._clusters,
            live,
            self.options.limits,
            contain=self.options.contain,
            most=self.options.most_connections,
            most_held=self.options.most_held,
            on_open=live.begin_connection,
        )

    @property
    def clusters(self) -> Mapping[str, ClusterView]:
        """What live connections have shown about each cluster, by its name in the configuration."""
        return self._clusters.views

    # Ends

    def flush(self) -> None:
        for output in self._outputs:
            output.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Close the outputs and the key log; *error* is what ended the run early, if anything did."""
        with ExitStack() as stack:
            stack.callback(self.secrets.close)
            for output in self._outputs:
                stack.callback(output.close, error)

    # Events to outputs

    def switch_source(self, source: Source) -> None:
        """Tell the outputs that the next events come from *source*."""
        if source is not self.source:
            self.source = source
            for output in self._outputs:
                output.start_source(source)

    def write(self, event: Event) -> None:
        """Write an event of the current source to the outputs; bodies are decoded at most once for all of them."""
        condition = self.condition
        if condition is None:
            write_event(*self.direct, event)
            return
        if condition.reads_bodies or self._outputs_read_bodies:
            self._opener.learn(event)
        bodies = condition.read_bodies(event, self._opener)
        shown = condition(event, bodies)
        if bodies is None and shown and self._outputs_read_bodies and isinstance(event, Exchange):
            bodies = read_bodies(event, self._opener)
        for output in self._outputs:
            output.write(event, bodies, shown=shown)

    @property
    def direct(self) -> tuple[list[Output], Opener | None]:
        """What events without a condition are written to, see write_event."""
        return self._outputs, self._opener if self._outputs_read_bodies else None

    def begin(self, connection: Connection, at: int) -> None:
        """Tell the outputs that a live connection of the current source has begun, at a time in ns."""
        for output in self._outputs:
            output.begin(connection, at)

    def end(self, end: End) -> None:
        """Tell the outputs that a connection of the current source, or one side of it, has ended."""
        for output in self._outputs:
            output.end(end)

    def _new_source(self, name: str) -> Source:
        self._sources += 1
        return Source(self._sources, name, self.viewers)

    def _read_flows(
        self,
        items: Iterator[FlowItem | Data],
        name: str,
        capture: Capture | MergedCapture | None,
        *,
        wait_for_names: bool,
        division: Division | None = None,
        cluster: ClusterView | None = None,
    ) -> Iterator[None]:
        self.switch_source(self._new_source(name))
        direct = partial(write_event, *self.direct)  # what self.write does without a condition
        names = LateNames(direct if self.condition is None else self.write, self.end, waits=wait_for_names)
        if division is not None:
            items = division.own(items, lambda: flows, names)
        flows = FlowEvents(
            items,
            numbers_from=self._connections,
            limits=self.options.limits,
            keylog=self.keylog,
            on_end=names.end,
            cluster=cluster if division is None else division.cluster,
            contain=self.options.contain,
        )
        file = self._file = _File(flows, names, capture)
        write = names.write
        for event in flows:
            write(event)
            yield
        self._finish_file(file)
        yield  # events that were held back have been written

    def _finish_file(self, file: "_File") -> None:
        self._file = None
        file.names.close()
        self._connections += file.flows.flows
        for name, count in file.flows.faults.items():
            self.faults[name] = self.faults.get(name, 0) + count
        capture = file.capture
        if capture is None:
            return
        self.damages += capture.damages
        self.notes += capture.notes if isinstance(capture, MergedCapture) else []
        if capture.flows is None:
            return
        self.damages += doubtful(capture.name, capture.flows.doubts)
        if self.segments_again is not None:
            self.segments_again += capture.flows.segments_again
        for name, count in capture.flows.passed_over.items():
            self.packets_passed_over[name] = self.packets_passed_over.get(name, 0) + count

    def _read_log(self, log: DecodedLog | MergedLog, name: str | None) -> Iterator[None]:
        self.segments_again = None
        self.switch_source(self._new_source(name or Path(log.name).name))
        if self._log_reader is None:
            self._log_reader = _log_reader()
        try:
            for line in log:
                self._write_line(self._log_reader, log, line)
                yield
        finally:
            self.damages += log.damages

    def _write_line(self, reader: "LogReader", log: DecodedLog | MergedLog, line: bytes) -> None:
        """Write the event of a line; a line that cannot be read or shown is listed in the log's damages."""
        try:
            event, bodies = reader.read(line)
            shown = self.condition is None or self.condition(event, bodies, line)
            for output in self._outputs:
                output.write(event, bodies, shown=shown, line=line)
        except CaptureError as error:
            log.refuse(str(error))
        except reader.line_errors as error:
            log.refuse(f"cannot be shown ({printable(str(error), 120)})")


def doubtful(name: str, doubts: Doubts) -> Iterator[str]:
    """Yield a sentence for each reason why what was read of a capture is wrong."""
    if doubts.mixed:
        yield (
            f"{name}: two different streams of bytes between the same addresses and ports, in"
            f" {counted(doubts.mixed, 'connection')}: only one of the two was read. Captures of two clusters with the same"
            " addresses are kept apart by --separate"
        )
    if by_ns := doubts.clocks_differ_by:
        yield (
            f"{name}: the clocks that it was captured with differ by {render_duration(by_ns)} or more (bytes were"
            " acknowledged before they came): latencies and the order of requests and responses are wrong"
        )


# Imports that only some options need: decoding a small capture takes as long as its imports.


def _compile(expression: str) -> "Where":
    from kproxy.output.where import Where  # noqa: PLC0415 - imports CEL

    return Where(expression)


def _viewers(schemas: "Schemas") -> "Viewers":
    from kproxy.schemas.viewer import make_viewers  # noqa: PLC0415

    return make_viewers(schemas)


def _log_reader() -> "LogReader":
    from kproxy.output.from_jsonl import LogReader  # noqa: PLC0415

    return LogReader()


def _open_keylog(path: Path) -> KeyLogFile:
    from kproxy.capture.tls.ciphers import check_available  # noqa: PLC0415 - imports cryptography

    check_available()
    return KeyLogFile(path)


class _File(Struct):
    """A file that is being read."""

    flows: FlowEvents
    names: LateNames
    capture: Capture | MergedCapture | None
