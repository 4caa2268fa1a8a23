"""Read captures and decoded logs in your own program: ``for event in kproxy.read("trace.pcapng")``."""

import os
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from kproxy.capture import Data, FlowItem, Flows, Packet
from kproxy.capture.reader import ClosedOnExit
from kproxy.capture.unwrap import Unwrapper
from kproxy.errors import CaptureError, UsageError
from kproxy.output.bodies import Bodies, Opener
from kproxy.output.exchange_line import read_bodies
from kproxy.pipeline.inputs import Files, Inputs, find_inputs
from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.summary import Summary
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.schemas.settings import SchemaSources
from kproxy.session import Event, Exchange


def read(
    *paths: str | Path,
    where: str | None = None,
    keylog: str | Path | None = None,
    records: bool = False,
    schemas: SchemaSources = SchemaSources(),  # noqa: B008 - frozen
    strict: bool = True,
    separate: bool = False,
) -> "Reader":
    """Read the events of captures and decoded logs; several captures are read as one, in the order of their packets.

        for event in kproxy.read("trace.pcapng", where='apiName == "Fetch"'):
            print(event.client_id, event.request_body().max_bytes)

    Events are `Exchange` (a request, its response, or both), `Gap`, `BadFrame`, `Note`, `SaslToken`, `Tls`, `NotKafka`:

        >>> events = kproxy.read("captures/06-sasl-scram.pcap")
        >>> login = next(event for event in events if isinstance(event, kproxy.Exchange) and event.api_name == "SaslAuthenticate")
        >>> events.bodies(login).request
        b'{"authBytes":"(withheld)"}'
        >>> sum(1 for event in events), events.summary
        (38, ['82 frames in 41 exchanges on 5 connections; none undecoded, no gaps'])

    Args:
        paths: pcap, pcapng or decoded log (JSON lines), plain, gzip or zstd; "-" is standard input.
        where: a condition (CEL) on the fields of the decoded log; other events are skipped.
        keylog: TLS session keys (NSS key log), in addition to those inside the captures.
        records: let ``Reader.bodies`` open the records of all topics, not only those of Kafka's internal topics.
        schemas: with *records*, where the schemas of keys and values come from: registries, folders, files.
        strict: raise CaptureError for a damaged file: before the first event where it is no capture at all, otherwise after
            the last event. False: list the damage in ``Reader.damages``.
        separate: read captures one by one, not as one capture.

    Raises:
        CaptureError: a file cannot be opened, or is neither a capture nor a decoded log.
        UsageError: no path is given, schemas without records, ``where`` is not a condition, or the key log cannot be opened.
        TypeError: a path is neither str nor Path.
    """
    if not paths:
        raise UsageError('no file to read: give at least one path, for instance kproxy.read("trace.pcapng")')
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                f"a path is str or Path, not {type(path).__name__}; pass several paths as arguments: kproxy.read(*paths)"
            )
    if schemas != SchemaSources() and not records:
        raise UsageError("schemas are for records: kproxy.read(..., records=True, schemas=...)")
    key_file = None if keylog is None else Path(keylog)
    options = Options(where=where, keylog=key_file, records=records, schemas=schemas)
    return Reader([Path(path) for path in paths], options, strict=strict, separate=separate)


class Reader(Iterator[Event], ClosedOnExit):
    """The events of files; iterate once. The end, ``close`` or the end of a ``with`` block closes the files."""

    def __init__(self, paths: Iterable[Path], options: Options, *, strict: bool, separate: bool = False) -> None:
        self._inputs = _find(paths, separate=separate)
        if strict and self._inputs.damages:
            raise CaptureError("\n".join(self._inputs.damages))
        self._run = Run(options)
        self._opener = Opener(self._run.viewers)
        self._collector = _Collector(self._opener)
        self._summary = Summary()
        self._run.add_output(self._collector)
        self._run.add_output(self._summary)
        self._close_run = weakref.finalize(self, self._run.close)  # at the latest when the Reader is dropped
        self._events = _read(self._inputs.files, self._run, self._collector, strict=strict)

    def __next__(self) -> Event:
        return next(self._events)

    def bodies(self, exchange: Exchange) -> Bodies:
        """Return both bodies of an exchange as Kafka's JSON, with embedded payloads decoded and credentials withheld.

        Call it before taking the next event: decoding some payloads depends on the events up to this one.
        """
        event, bodies = self._collector.given
        return bodies if event is exchange and bodies is not None else read_bodies(exchange, self._opener)

    @property
    def viewers(self) -> "Viewers | None":
        """Return what shows the records; None without ``records``."""
        return self._opener.viewers

    def read_records(self, event: Event) -> None:
        """Decode the records of an event for what the viewers count."""
        if isinstance(event, Exchange):
            self._opener.open(event)

    @property
    def damages(self) -> list[str]:
        """Return one sentence for each damaged file so far: where and how."""
        return [*self._inputs.damages, *self._run.damages]

    @property
    def summary(self) -> list[str]:
        """Return sentences on what was read so far: counts first, then each kind of trouble and how often it occurred."""
        return list(self._summary.lines(self._run.packets_passed_over))

    def close(self) -> None:
        """Close the files and the key log; no more events follow."""
        self._events.close()
        self._close_run()


def _read(inputs: list[Files], run: Run, collector: "_Collector", *, strict: bool) -> Generator[Event]:
    with run:
        for files in inputs:
            with files.open() as source:
                for _ in run.read(source):
                    yield from collector.shown()
            if strict and run.damages:
                raise CaptureError("\n".join(run.damages))


class _Collector(Observer):
    """Queues events until the caller asks for them.

    Args:
        opener: learns from every event, also from those not shown. It learns when the event leaves the queue, so it never
            knows more than the events up to the caller's current one.
    """

    def __init__(self, opener: Opener | None = None) -> None:
        # The caller's current event, and its bodies if they were decoded before
        self.given: tuple[Event | None, Bodies | None] = None, None
        self._opener = opener
        self._events: deque[tuple[Event, Bodies | None, bool]] = deque()

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        self._events.append((event, bodies, shown))

    def shown(self) -> Iterator[Event]:
        """Take the events out of the queue in their order; yield those that are shown."""
        while self._events:
            event, bodies, shown = self._events.popleft()
            if self._opener is not None:
                self._opener.learn(event)
            if shown:
                self.given = event, bodies
                yield event


def decode_packets(packets: Iterable[Packet], options: Options = Options()) -> Iterator[Event]:  # noqa: B008 - frozen
    """Decode packets from any source, roughly in the order of their times, with all packets of each connection in one call.

    Made for tasks of a Spark cluster: packets and options can be pickled, and nothing is kept after the last event or shared
    with another call. With ``Options(contain=(Exception,))`` a failure in one connection does not end the task.
    """
    return decode_flows(_reassemble(packets), options)


def decode_flows(items: Iterable[FlowItem | Data], options: Options = Options()) -> Iterator[Event]:  # noqa: B008 - frozen
    """As ``decode_packets``, for flows that were reassembled before."""
    collector = _Collector()
    with Run(options, [collector]) as run:
        for _ in run.read_flow_items(iter(items)):
            yield from collector.shown()


def _reassemble(packets: Iterable[Packet]) -> Iterator[FlowItem | Data]:
    flows = Flows(None, Unwrapper(None))
    for packet in packets:
        yield from flows.receive_packet(packet)
    yield from flows.close()


def _find(paths: Iterable[Path], *, separate: bool) -> Inputs:
    """Find the files. Raises CaptureError where there is none, before the first event of any file."""
    try:
        return find_inputs(paths, separate=separate)
    except UsageError as error:
        raise CaptureError(str(error)) from error
