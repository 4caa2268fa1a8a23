"""Read captures and decoded logs in a program of your own: ``for event in kproxy.read("trace.pcapng")``."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kproxy.capture import Data, FlowItem, Flows, Packet
from kproxy.capture.files import STANDARD_INPUT
from kproxy.capture.unwrap import Unwrapper
from kproxy.errors import CaptureError
from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.opening import Opener
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.summary import Summary
from kproxy.protocol.embedded import Viewers
from kproxy.session import Event, Exchange


def read(
    *paths: str | Path,
    where: str | None = None,
    keylog: str | Path | None = None,
    records: bool = False,
    strict: bool = True,
) -> "Reader":
    """Read the events of captures and decoded logs, file after file.

        for event in kproxy.read("trace.pcapng", where='apiName == "Fetch"'):
            print(event.client_id, event.request_body().max_bytes)

    Args:
        paths: pcap, pcapng or decoded log (JSON lines), plain, gzip or zstd; "-" is standard input.
        where: a condition (CEL) on the fields of the decoded log; only events for which it is true are given.
        keylog: session keys of TLS (NSS key log), beside those inside the captures.
        records: have ``Reader.bodies`` open the records of all topics, not only of Kafka's internal ones.
        strict: raise CaptureError for a damaged file, after the last event before the damage. False: go on with the next file,
            and list what is damaged in ``Reader.damages``.

    Raises:
        CaptureError: a file cannot be opened, or is neither capture nor decoded log.
        UsageError: ``where`` is no condition, or the key log cannot be opened.
    """
    options = Options(where=where, keylog=None if keylog is None else Path(keylog), records=records)
    return Reader([Path(path) for path in paths], options, strict=strict)


class Reader(Iterator[Event]):
    """The events of files; iterate once. Files are closed at the end, or by ``close``, or at the end of a ``with`` block."""

    def __init__(self, paths: Iterable[Path], options: Options, *, strict: bool) -> None:
        self._collector = _Collector()
        self._summary = Summary()
        self._opener = Opener(Viewers() if options.records else None)
        self._run = Run(options, [self._collector, self._summary])
        self._strict = strict
        paths = list(paths)
        for path in paths:
            _check(path)
        self._events = self._read(paths)

    def __next__(self) -> Event:
        event = next(self._events)
        self._opener.learn(event)
        return event

    def bodies(self, exchange: Exchange) -> Bodies:
        """Both bodies of an exchange as Kafka's JSON, and what is inside them; credentials withheld, as in the decoded log.

        Ask for them before the next event: what is inside some payloads only earlier events tell.
        """
        event, bodies = self._collector.given
        return bodies if event is exchange and bodies is not None else read_bodies(exchange, self._opener)

    @property
    def damages(self) -> list[str]:
        """Which files were damaged so far, where, and how: one sentence each."""
        return self._run.damages

    @property
    def summary(self) -> list[str]:
        """What was read so far in sentences: counts first, then what went wrong how often."""
        return list(self._summary.lines(self._run.packets_passed_over))

    def close(self) -> None:
        """Close the files; there are no more events."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, paths: list[Path]) -> Generator[Event]:
        collector, run = self._collector, self._run
        with run:
            for path in paths:
                with open_input(path) as source:
                    for _ in run.read(source):
                        yield from collector.shown()
                if self._strict and run.damages:
                    raise CaptureError("\n".join(run.damages))


class _Collector(Observer):
    """Keeps the events that are shown until the reader gives them on."""

    def __init__(self) -> None:
        self.given: tuple[Event | None, Bodies | None] = (
            None,
            None,
        )  # the last one, and its bodies if they were read already
        self._events: deque[tuple[Event, Bodies | None]] = deque()

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if shown:
            self._events.append((event, bodies))

    def shown(self) -> Iterator[Event]:
        """The events kept, each of them once."""
        while self._events:
            event, _ = self.given = self._events.popleft()
            yield event


def decode_packets(packets: Iterable[Packet], options: Options = Options()) -> Iterator[Event]:  # noqa: B008 - frozen
    """Decode the packets of some connections, about in the order of their times, wherever they come from.

    For a task of a cluster: packets and options can be pickled, nothing is kept after the last event or shared with another call.
    ``Options(contain=(Exception,))`` keeps one connection from ending the task.
    """
    return decode_flows(_reassemble(packets), options)


def decode_flows(items: Iterable[FlowItem | Data], options: Options = Options()) -> Iterator[Event]:  # noqa: B008 - frozen
    """Decode flows that are reassembled already, as ``decode_packets`` does packets."""
    collector = _Collector()
    with Run(options, [collector]) as run:
        for _ in run.read_flow_items(iter(items)):
            yield from collector.shown()


def _reassemble(packets: Iterable[Packet]) -> Iterator[FlowItem | Data]:
    flows = Flows(None, Unwrapper(None))
    for packet in packets:
        yield from flows.receive_packet(packet)
    yield from flows.close()


def _check(path: Path) -> None:
    """Raise CaptureError for a file that cannot be read, before the first event of any."""
    may_be_opened_twice = path.is_file() or path.is_dir() or not path.exists()  # else a pipe
    if may_be_opened_twice and str(path) != STANDARD_INPUT:
        open_input(path).close()
