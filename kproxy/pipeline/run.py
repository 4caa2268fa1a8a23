"""One run of the engine: options in, sources read, events written to outputs; counts, damages and faults kept.

    with Run(Options(where='apiName == "Fetch"'), [Lines(event_line, Sink(None, live=False)), summary]) as run:
        for path in paths:
            with open_input(path) as source:
                for _ in run.read(source):      # pauses after each event
                    ...

``kproxy decode``, the analyzer process and ``kproxy.read`` are each a Run with other sources and outputs. To add a source that is
read to its end, add a method beside ``read_flow_items``; one of live connections is ``open_live``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import Struct, field

from kproxy.capture import Capture, Data, FlowItem, read_flows
from kproxy.capture.tls import KeyLog, KeyLogFile
from kproxy.errors import CaptureError
from kproxy.output.bodies import read_bodies
from kproxy.output.escaping import printable
from kproxy.output.opening import Opener, Protocols
from kproxy.pipeline.connections import Clusters, Connections
from kproxy.pipeline.decoded_log import DecodedLog
from kproxy.pipeline.division import Division
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.output import End, Output, Source
from kproxy.pipeline.tls_flow import Secrets
from kproxy.session import ClusterView, Connection, Event, Exchange, Limits

if TYPE_CHECKING:
    from kproxy.output.from_jsonl import LogReader
    from kproxy.output.where import Where
    from kproxy.protocol.embedded import Viewers

Input: TypeAlias = Capture | DecodedLog  # what decoded_log.open_input opens
OnFault: TypeAlias = Callable[[int, BaseException], None]


class Options(Struct, frozen=True):
    """What a run does. Plain values, so that a Spark driver can send them to its executors.

    Args:
        where: a CEL expression over the names of the decoded log (kproxy.output.jsonl); events for which it is false are
            written with ``shown=False``.
        keylog: an NSS key log for TLS, beside those inside captures.
        records: open the records of all topics for the bodies, not only of Kafka's internal ones.
        limits: of one connection.
        contain: exceptions that end only the connection in which they are raised, and are counted in ``Run.faults``. Without
            any, they end the run: a person who decodes a file wants to know; a process that must go on contains them.
        most_connections, most_held: of each live source: connections at a time, and bytes held by their sessions together.
            Of captures, kproxy.capture.Limits bounds them.
    """

    where: str | None = None
    keylog: Path | None = None
    records: bool = False
    limits: Limits = field(default_factory=Limits)
    contain: tuple[type[BaseException], ...] = ()
    most_connections: int = 20_000
    most_held: int = 268_435_456


class Part(Struct, frozen=True):
    """What a run that has read a part of a divided capture tells the one that puts the parts together."""

    connections: int
    damages: list[str]
    passed_over: dict[str, int]
    faults: dict[str, int]
    groups: dict[str, Protocols]
    keylog: tuple[int, int]  # lines with secrets, and others


class Run:
    """Reads sources one after the other, or live ones side by side, and writes their events to the outputs.

    Use it as a context manager, or close it: that closes the outputs, too.

    Args:
        options: see Options.
        outputs: each gets every event, in this order.

    Raises UsageError for an option that is wrong.
    """

    def __init__(self, options: Options = Options(), outputs: Iterable[Output] = ()) -> None:  # noqa: B008 - frozen
        self.options = options
        self.condition = None if options.where is None else _compile(options.where)
        self.damages: list[str] = []  # of sources: where each could not be read on, and why
        self.interrupted = False  # a source was ended before its end
        self.packets_passed_over: dict[str, int] = {}  # of captures, by reason
        self.faults: dict[str, int] = {}  # of flows that failed, by exception; of live sources see their Connections
        self.secrets = Secrets(None if options.keylog is None else _open_keylog(options.keylog))
        self.keylog = KeyLog(self.secrets.more)
        self._opener = Opener(_viewers() if options.records else None)
        self._log_reader: LogReader | None = None  # made for the first log
        self._clusters = Clusters()
        self._outputs: list[Output] = []
        self._outputs_read_bodies = False
        self._reads_bodies = False  # for an output, or for the condition
        self._sources = 0
        self.source: Source | None = None  # of the last event
        self._connections = 0  # numbers that files have used so far
        self._file: _File | None = None  # being read
        for output in outputs:
            self.add_output(output)

    # Outputs

    @property
    def outputs(self) -> list[Output]:
        """What events are written to."""
        return list(self._outputs)

    def add_output(self, output: Output) -> None:
        """Write events to *output*, too, from now on. The run closes it."""
        self._outputs.append(output)
        self._outputs_changed()
        if self.source is not None:
            output.start_source(self.source)

    def remove_output(self, output: Output) -> None:
        """Write no more events to *output*. The caller closes it."""
        self._outputs.remove(output)
        self._outputs_changed()

    def _outputs_changed(self) -> None:
        self._outputs_read_bodies = any(output.reads_bodies for output in self._outputs)
        condition_reads = self.condition is not None and self.condition.reads_bodies
        self._reads_bodies = self._outputs_read_bodies or condition_reads

    # Sources that have an end

    def read(
        self,
        source: Input,
        *,
        name: str | None = None,
        wait_for_names: bool = True,
        cluster: ClusterView | None = None,
    ) -> Iterator[None]:
        """Read a source to its end; pause after each event, so that the caller can show progress, or stop.

        Damage ends the source and is among ``damages``; what comes before it was written.

        Args:
            name: the outputs' name of the source.
            wait_for_names: hold events back until their topics have names (late_names.py); not where they are watched live.
            cluster: what the connections of a capture learn names from, and to; by default a view of their own.
        """
        if isinstance(source, DecodedLog):
            return self._read_log(source, name)
        self.secrets.read_from(source)
        return self._read_flows(
            read_flows(source),
            name or Path(source.name).name,
            source,
            wait_for_names=wait_for_names,
            cluster=cluster,
        )

    def read_part(self, source: Capture, division: Division, *, name: str | None = None) -> Iterator[None]:
        """As ``read``, of the connections that a Division of the capture gives to this run, of a process of its own."""
        self._opener = division.opener(self._opener)
        self.secrets.read_from(source)
        name = name or Path(source.name).name
        return self._read_flows(read_flows(source), name, source, wait_for_names=True, division=division)

    def begin_part(self, outputs: Iterable[Output]) -> None:
        """Write to these outputs instead, in a process that was forked to ``read_part``. Raises OSError (see Secrets.reopen)."""
        self._outputs = list(outputs)
        self._outputs_changed()
        self.faults.clear()
        self.secrets.reopen()

    def part(self) -> Part:
        """What ``read_part`` has counted."""
        keylog = self.keylog.lines, self.keylog.passed_over
        groups = dict(self._opener.groups)
        return Part(self._connections, self.damages, self.packets_passed_over, self.faults, groups, keylog)

    def add_parts(self, parts: list[Part]) -> None:
        """Go on as after a capture whose parts these are."""
        self._sources += 1
        self._connections = max(part.connections for part in parts)
        self.damages = parts[0].damages
        self.packets_passed_over = parts[0].passed_over
        self.keylog.lines, self.keylog.passed_over = map(max, zip(*(part.keylog for part in parts), strict=True))
        for part in parts:
            for group_id, protocols in part.groups.items():
                self._opener.note_protocols(group_id, protocols)
            for name, count in part.faults.items():
                self.faults[name] = self.faults.get(name, 0) + count

    def read_flow_items(self, items: Iterator[FlowItem | Data], name: str = "") -> Iterator[None]:
        """Read reassembled flows, from wherever they come: as ``read`` does a capture."""
        return self._read_flows(items, name, None, wait_for_names=True)

    def read_connection(self, items: Iterator[FlowItem | Data], name: str, cluster: ClusterView) -> Iterator[None]:
        """Read one connection of a capture, whose flows have their numbers.

        *cluster* has the facts that other connections show (names of topics).
        """
        if self.source is None or self.source.name != name:
            self.switch_source(self._new_source(name))
        self._opener = Opener(self._opener.viewers)
        flows = FlowEvents(
            items,
            limits=self.options.limits,
            keylog=self.keylog,
            on_end=self.end,
            cluster=cluster,
            contain=self.options.contain,
        )
        for event in flows:
            self.write(event)
            yield
        for fault, count in flows.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count

    def interrupt(self) -> None:
        """End the source that is being read here, after an exception (Ctrl-C) ended ``read``: its last events are written."""
        self.interrupted = True
        if self._file is not None:
            for event in self._file.flows.close():
                self._file.names.write(event)
            self._finish_file(self._file)

    # Live sources

    def open_live(self, name: str, on_fault: OnFault = lambda number, fault: None) -> Connections:
        """Begin a source of live connections, of which any number may be open side by side; the caller feeds it.

        *on_fault* is called with the number of a connection that was ended by an exception of Options.contain.
        """
        live = _Live(self, self._new_source(name), on_fault)
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
        """What live connections have shown of each cluster, by its name in the configuration."""
        return self._clusters.views

    # Ends

    def flush(self) -> None:
        """Have the outputs write what they have buffered."""
        for output in self._outputs:
            output.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Close outputs and key log; *error* is what ended the run early, if anything did."""
        with ExitStack() as stack:
            stack.callback(self.secrets.close)
            for output in self._outputs:
                stack.callback(output.close, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    # Events to outputs

    def switch_source(self, source: Source) -> None:
        """Have the outputs know that the next events come from *source*."""
        if source is not self.source:
            self.source = source
            for output in self._outputs:
                output.start_source(source)

    def write(self, event: Event) -> None:
        """Write an event of the current source to the outputs; its bodies are read at most once for all of them."""
        condition = self.condition
        bodies, shown = None, True
        if self._reads_bodies:
            self._opener.learn(event)
        if condition is not None:
            bodies = condition.read_bodies(event, self._opener)
            shown = condition(event, bodies)
        if bodies is None and shown and self._outputs_read_bodies and isinstance(event, Exchange):
            bodies = read_bodies(event, self._opener)
        for output in self._outputs:
            output.write(event, bodies, shown=shown)

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
        return Source(self._sources, name)

    def _read_flows(
        self,
        items: Iterator[FlowItem | Data],
        name: str,
        capture: Capture | None,
        *,
        wait_for_names: bool,
        division: Division | None = None,
        cluster: ClusterView | None = None,
    ) -> Iterator[None]:
        self.switch_source(self._new_source(name))
        names = LateNames(self.write, self.end, waits=wait_for_names)
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
        yield  # what was held back is written now

    def _finish_file(self, file: "_File") -> None:
        self._file = None
        file.names.close()
        self._connections += file.flows.flows
        for name, count in file.flows.faults.items():
            self.faults[name] = self.faults.get(name, 0) + count
        capture = file.capture
        if capture is None:
            return
        if capture.damage is not None:
            self.damages.append(str(capture.damage))
        for name, count in capture.flows.passed_over.items() if capture.flows is not None else ():
            self.packets_passed_over[name] = self.packets_passed_over.get(name, 0) + count

    def _read_log(self, log: DecodedLog, name: str | None) -> Iterator[None]:
        self.switch_source(self._new_source(name or Path(log.name).name))
        if self._log_reader is None:
            self._log_reader = _log_reader()
        try:
            for line in log:
                self._write_line(self._log_reader, log, line)
                yield
        finally:
            self.damages += log.damages

    def _write_line(self, reader: "LogReader", log: DecodedLog, line: bytes) -> None:
        """Write the event of a line; a line that is none, or holds what cannot be shown, is among the log's damages."""
        try:
            event, bodies = reader.read(line)
            shown = self.condition is None or self.condition(event, bodies, line)
            for output in self._outputs:
                output.write(event, bodies, shown=shown, line=line)
        except CaptureError as error:
            log.refuse(str(error))
        except reader.odd as error:
            log.refuse(f"cannot be shown ({printable(str(error), 120)})")


# What only some options need is imported here: a decode of a small capture takes as long as its imports.


def _compile(expression: str) -> "Where":
    from kproxy.output.where import Where  # noqa: PLC0415 - brings CEL

    return Where(expression)


def _viewers() -> "Viewers":
    from kproxy.protocol.embedded import Viewers  # noqa: PLC0415

    return Viewers()


def _log_reader() -> "LogReader":
    from kproxy.output.from_jsonl import LogReader  # noqa: PLC0415

    return LogReader()


def _open_keylog(path: Path) -> KeyLogFile:
    from kproxy.capture.tls.protection import check_available  # noqa: PLC0415 - brings what decrypts

    check_available()
    return KeyLogFile(path)


class _File(Struct):
    """A source that is being read."""

    flows: FlowEvents
    names: LateNames
    capture: Capture | None


class _Live:
    """Writes the events of one live source to a run; the Listener of its Connections."""

    def __init__(self, run: Run, source: Source, on_fault: OnFault) -> None:
        self._run = run
        self._source = source
        self._on_fault = on_fault
        self.taken = 0

    def receive_events(self, events: list[Event]) -> None:
        """See Listener."""
        run = self._run
        run.switch_source(self._source)
        for event in events:
            run.write(event)
            self.taken += 1

    def begin_connection(self, connection: Connection, at: int) -> None:
        """Tell the outputs of a connection."""
        self._run.switch_source(self._source)
        self._run.begin(connection, at)

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        """See Listener."""
        if fault is not None:
            self._on_fault(end.connection, fault)
        self._run.switch_source(self._source)
        self._run.end(end)
