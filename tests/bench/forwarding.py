"""What forwarding costs, beside haproxy: CPU time of the process that forwards, and what it adds to a round trip.

    python -m tests.bench.forwarding [--rounds 7] [--also NAME='COMMAND with {listen} and {broker}']

A load and a broker made here, each a process of its own, and between them in turn: haproxy (TCP, one thread), `kproxy run` as
it starts by default, and without analysis. Medians of the rounds' own ratios to haproxy, with the spread, and the ratio of the
fastest rounds, which other work on the machine changes least; the CPU time of the analyzer, another process, is beside it.
Context switches and system calls of the process that forwards are beside them, a request, as the machine's other work does not
change these (calls from strace, in a round that is not timed; allocations: tests.bench.scale). Round trips are of one small
request at a time, in microseconds more than without a proxy. Needs haproxy.
Another proxy is measured by its command:

    --also kafka-proxy='kafka-proxy server --bootstrap-server-mapping {broker},{listen}'
"""

import contextlib
import multiprocessing
import random
import shlex
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.bench import filters
from tests.bench.filters import HEARTBEAT, Broker, Frames, Load, answered, asked, drive, produce
from tests.bench.measuring import calls, cpu_of, options_of, spread, switches
from tests.support.haproxy import haproxy
from tests.support.kafka.processes import children, command_line, eventually, spawn, stop
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.ports import free_ports

HOST = "127.0.0.1"
ROUND_S = 0.5
TRIPS = 2_000
HAPROXY = "frontend f\n bind {listen}\n mode tcp\n default_backend b\nbackend b\n mode tcp\n server s {broker}\n"


@dataclass
class Side:
    """One way to the broker: where to connect, the processes that forward, and those that analyze."""

    name: str
    address: str
    pids: list[int] = field(default_factory=list)
    analyzers: list[int] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)  # seconds a request, of the load in progress
    analysis: list[float] = field(default_factory=list)
    switched: list[float] = field(default_factory=list)  # context switches a request
    trips: list[float] = field(default_factory=list)  # median seconds of a round trip

    def run(self, load: Load) -> None:
        """One round."""
        before = cpu_of(self.pids), cpu_of(self.analyzers), switches(self.pids)
        count = drive(self.address, load, ROUND_S)
        if not count:
            raise RuntimeError(f"{self.name}: {load.name} was not answered")
        self.spent.append((cpu_of(self.pids) - before[0]) / count)
        self.analysis.append((cpu_of(self.analyzers) - before[1]) / count)
        self.switched.append((switches(self.pids) - before[2]) / count)

    def time(self, load: Load) -> None:
        """The median of some round trips."""
        host, _, port = self.address.rpartition(":")
        taken = []
        with socket.create_connection((host, int(port))) as connected:
            frames = Frames(connected)
            for _ in range(TRIPS):
                began = time.perf_counter()
                connected.sendall(load.request)
                frames.next(4)
                taken.append(time.perf_counter() - began)
        self.trips.append(statistics.median(taken))


def loads() -> list[Load]:
    """Small frames, batches of 1 KB, and fields of 1 MB in both directions."""
    large = filters.field(1_000, Codec.NONE)[0]
    small = write_batches([RecordBatch([Record(value=bytes(1_000))])])
    beat = asked(HEARTBEAT, group_id="g", member_id="m"), answered(HEARTBEAT)
    return [
        Load("heartbeat 8x1", HEARTBEAT, *beat, 8, 1),
        Load("heartbeat 8x5", HEARTBEAT, *beat, 8, 5),
        produce("produce 1 KB 8x5", small, 8, 5),
        produce("produce 1 MB 4x1", large),
        filters.fetch("fetch 1 MB 4x1", large),
    ]


def serve(found: list[Load], told: Any) -> None:
    """The broker's process: answers the loads until it is killed."""
    broker = Broker()
    broker.answers = {load.api_key: load.response for load in found}
    told.send(broker.address)
    time.sleep(1e6)


@contextlib.contextmanager
def sides(folder: Path, broker: str, others: list[tuple[str, str]]) -> Iterator[list[Side]]:
    """All of them, haproxy first; they end with the block."""
    with contextlib.ExitStack() as stack:
        port = free_ports()
        text = HAPROXY.format(listen=f"{HOST}:{port}", broker=broker)
        stack.enter_context(haproxy(folder, f"global\n nbthread 1\n{text}", port))
        found = [Side("haproxy", f"{HOST}:{port}", our_haproxy())]
        for name, settings in (("kproxy", {}), ("kproxy --no-analysis", {"analysis": {"enabled": False}})):
            proxy = Proxy(folder / name, [cluster([broker], addresses={"mode": "fixed"})], **settings)
            stack.callback(proxy.start(reaches_brokers=False).close)
            if not settings:
                proxy.analyzing()
            found.append(Side(name, proxy.bootstrap(), proxy.workers(), proxy.named("kproxy-analyzer")))
        for name, command in others:
            address = f"{HOST}:{free_ports()}"
            words = shlex.split(command.format(listen=address, broker=broker))
            process = spawn(words, folder / f"{name}.log")
            stack.callback(stop, process)
            eventually(lambda at=address: accepts(at), what=f"{name} accepts at {address}")  # type: ignore[misc]
            pids = list(children(process.pid))
            found.append(Side(name, address, pids))
        yield found


def our_haproxy() -> list[int]:
    """The process of haproxy that we started."""
    own = multiprocessing.current_process().pid or 0
    return [pid for pid in children(own) if "haproxy.cfg" in command_line(pid)]


def accepts(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 1):
        return True


def rows(found: list[Side], load: Load, rounds: int) -> Iterator[str]:
    """CPU time a request of each side, and as a multiple of haproxy's in the same round."""
    for turn in range(rounds + 1):
        if turn <= 1:  # the first round warms up
            for side in found:
                side.spent, side.analysis, side.switched = [], [], []
        for side in random.sample(found, len(found)):
            side.run(load)
    for side in found:
        ratios = [mine / other for mine, other in zip(side.spent, found[0].spent, strict=True)]
        spent = statistics.median(side.spent) * 1e6
        beside = f"  analyzer {statistics.median(side.analysis) * 1e6:.1f} us" if side.analyzers else ""
        fastest = f"  fastest x{min(side.spent) / min(found[0].spent):.2f}"
        called = calls(side.pids, lambda to=side.address: drive(to, load, ROUND_S))  # type: ignore[misc]
        counts = f"{statistics.median(side.switched):.2f} switches, {called:.2f} calls"
        yield f"{load.name:<18} {side.name:<22} {spent:8.1f} us  {spread(ratios, 2)}{fastest}  {counts}{beside}"


def added(found: list[Side], broker: str, load: Load, rounds: int) -> Iterator[str]:
    """What each side adds to a round trip."""
    direct = Side("direct", broker)
    for _ in range(rounds):
        for side in random.sample([direct, *found], len(found) + 1):
            side.time(load)
    yield f"round trip of one small request: {statistics.median(direct.trips) * 1e6:.0f} us without a proxy"
    for side in found:
        more = [mine - other for mine, other in zip(side.trips, direct.trips, strict=True)]
        yield f"{'':<18} {side.name:<22} {statistics.median(more) * 1e6:+8.1f} us"


def main() -> None:
    """Run the rows."""
    given = options_of(__doc__, rounds=7, also="")
    others = [(name, command) for name, _, command in [given.also.partition("=")] if name]
    found_loads = loads()
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(found_loads, there), daemon=True)
    process.start()
    broker: str = here.recv()
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder), broker, others) as found:
        print("CPU time a request of the process that forwards, and as a multiple of haproxy's:")
        for load in found_loads:
            for line in rows(found, load, given.rounds):
                print(line, flush=True)
        for line in added(found, broker, found_loads[0], given.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
