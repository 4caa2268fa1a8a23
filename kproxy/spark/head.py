"""The head of a capture, read in one piece: names of its topics, and which events an undivided run holds back for a name.

An undivided run holds events back until their topics have names, but only at the beginning (late_names.py). Which events it
holds depends on all connections together, so one task finds out: it follows the capture without making rows until no event is
held any more, or HEAD bytes are read.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kproxy.capture import Data, FlowItem, Flows
from kproxy.capture.splitting import PartReader, SeekableFile, Start
from kproxy.capture.unwrap import Unwrapper
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.run import Run
from kproxy.session import Event
from kproxy.spark.facts import END, Names, View

HEAD = 32 << 20  # bytes of the file


class Head(Struct):
    """Names of topics, and packets whose events wait for names (see kproxy.spark.facts)."""

    names: Names
    waits: dict[int, int]


class HasSecrets(Struct):
    """TLS secrets from the survey; see kproxy.pipeline.tls_flow.Secrets."""

    secrets: list[tuple[int, bytes]]


def read_head(
    raw: SeekableFile, start: Start, size: int, run: Run, secrets: list[tuple[int, bytes]], *, head: int = HEAD
) -> Head:
    """Follow the first *head* bytes of a capture of *size* bytes.

    Args:
        raw: the file.
        start: how it begins.
        size: where it ends, at the latest.
        run: has the options, and the key log.
        secrets: of TLS, from all of the capture.
        head: see HEAD.
    """
    run.secrets.read_from(HasSecrets(secrets))
    flows = Flows(None, Unwrapper(None))
    at = _Position(flows)
    view = View(at)
    waits: dict[int, int] = {}
    read: deque[int] = deque()  # the packets of the events that were read and not yet written

    def write(event: Event) -> None:
        number, now = read.popleft(), at()
        if number != now:
            waits[number] = max(now, waits.get(number, 0))

    names = LateNames(write, lambda end: None)
    reader = PartReader(raw, start.first, min(size, start.first + head), start.preamble, packets=1)
    events = FlowEvents(
        _items(reader, flows, at, to_end=size <= start.first + head),
        keylog=run.keylog,
        limits=run.options.limits,
        on_end=names.end,
        cluster=view,
        contain=run.options.contain,
    )
    for event in events:
        read.append(at())
        names.write(event)
        if not names.waits and not names.holds:
            break
    at.ended = True
    names.close()
    return Head(view.learned, waits)


class _Position:
    """The number of the packet that is being read."""

    def __init__(self, flows: Flows) -> None:
        self.ended = False
        self._flows = flows

    def __call__(self) -> int:
        return END if self.ended else self._flows.packets


def _items(reader: PartReader, flows: Flows, at: _Position, *, to_end: bool) -> Iterator[FlowItem | Data | Any]:
    for batch in reader.batches():
        yield from flows.receive(batch)
    if to_end or reader.problem is not None:
        at.ended = True
        yield from flows.close()
