"""Tap records made of captures, and an analyzer process to give them to."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kproxy.capture import Closed, Data, Ended, Gap, open_capture, read_flows
from kproxy.config.structs import Analysis, Cluster, Config
from kproxy.proxy.messages import AnalyzerCounts, Configure, Drain, Drained, Failed, Ready
from kproxy.proxy.supervisor.processes import ANALYZER
from kproxy.proxy.tap.ring import TapWriter, await_reader, create_ring
from kproxy.proxy.tap.tapped import TapKind
from tests.support.child import PATIENCE, ChildProcess

RING_SIZE = 4 << 20
Item = tuple[int, int, int, int, bytes]  # a TapItem but for when it was sent on


def opened(number: int, client: str, broker: str, *, at: int = 0, from_start: bool = True) -> Item:
    """The record that tells of a connection."""
    told = {"number": number, "cluster": "test", "client": client, "broker": broker, "from_start": from_start}
    told |= {"in_frames": False, "tls": None, "user_name": None, "sasl_mechanism": None}
    return TapKind.OPEN, number, 0, at, json.dumps(told).encode()


def tap_items(capture: Path) -> Iterator[Item]:
    """What a tap would have told of the connections in a capture, in the order of its packets."""
    seen: set[int] = set()
    with open_capture(capture) as opened_capture:
        for item in read_flows(opened_capture):
            flow = item.flow
            if flow.number not in seen:
                seen.add(flow.number)
                yield opened(flow.number, flow.client, flow.server, at=item.time_ns)
            match item:
                case Data():
                    yield TapKind.DATA, flow.number, item.direction, item.time_ns, bytes(item.data)
                case Gap():
                    size = (item.size or 0).to_bytes(8, "little")
                    yield TapKind.LOST, flow.number, item.direction, item.time_ns, size
                case Ended():
                    yield TapKind.END, flow.number, item.direction, item.time_ns, b""
                case Closed():
                    yield TapKind.CLOSE, flow.number, 0, item.time_ns, b"\0"


class AnalyzerProcess(ChildProcess):
    """A running analyzer, seen from where the supervisor and the workers stand."""

    def __init__(self, analysis: Analysis, *, rings: int = 1, before: Iterable[Item] = ()) -> None:
        super().__init__()
        self.rings = [create_ring(RING_SIZE) for _ in range(rings)]
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.writers = [TapWriter(fd, self.doorbell) for fd in self.rings]
        for fd in self.rings:
            await_reader(fd)
        for item in before:  # the analyzer has not been started yet
            assert self.writers[0].put(*item)
        self._config = Config(clusters=[Cluster(listen="127.0.0.1:1")], analysis=analysis)
        self.start()

    def start(self) -> None:
        """Start it (again)."""
        self.spawn(ANALYZER, taps=tuple(self.rings), doorbell=self.doorbell)
        self.configure(self._config.analysis)
        assert self.until(Ready, Failed) == Ready()

    def configure(self, analysis: Analysis) -> None:
        """Tell it what to write."""
        config = Config(clusters=self._config.clusters, analysis=analysis)
        self.send(Configure.to(config))

    def tap(self, items: Iterator[Item] | list[Item], *, ring: int = 0) -> None:
        """Write records, waiting for room."""
        for item in items:
            while not self.writers[ring].put(*item):
                assert self.process.poll() is None, "the analyzer ended"

    def drain(self) -> AnalyzerCounts:
        """Have it finish; its last counts."""
        self.send(Drain(5))
        self.until(Drained)
        assert self.process.wait(PATIENCE) == 0
        return next(message for message in reversed(self.heard) if isinstance(message, AnalyzerCounts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        for fd in (*self.rings, self.doorbell):
            os.close(fd)
