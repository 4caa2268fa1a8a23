"""How the cost of `kproxy run` grows with what it serves, and what it takes at rest.

    python -m tests.bench.scale [--rounds 3] [--only start,counts,connections,brokers,clusters,topics,groups]

Each row is a proxy of its own in front of a broker made here, under a load of eight connections:

    start        until the first client is accepted; memory with everything and without analysis
    counts       system calls, context switches and calls of malloc a request, of the worker and of the analyzer, beside
                 haproxy's (which has pools of its own); Python's small objects count, as PYTHONMALLOC=malloc takes them from
                 there. Needs cc
    connections  8, 1,000 and 20,000 other clients are connected and silent, or as many as the limit of open files allows here;
                 three workers, as each client takes two files of its worker
    brokers      the cluster has 1, 3 and 100 brokers, each with a listener
    clusters     1 and 50 clusters are served, and only the first has clients
    topics       requests name 10 and 10,000 topics in turn
    groups       heartbeats come from 10 and 10,000 groups in turn

Columns: CPU microseconds a request of the worker and of the analyzer; context switches and system calls of the worker a
request (system calls from strace, in a round that is not timed); CPU milliseconds a second of all processes at rest; and their
memory, where a page that several of its processes have counts once, whether or not others have it too (only root can see
that). haproxy's row is the yardstick. Nothing should grow faster than its number, and at rest little should grow at all.

After the first scrape it is 8 MB more (57 and 42 MB, where the goals are 55 and 35): half is prometheus_client, which comes with
an HTTP server and a client; a quarter is h11 and the pages' code, a quarter are objects that the supervisor shared and now uses.
Loaded before the fork, they would take 1.5 MB of proxies that nobody scrapes.

Where the memory is just after the start, in MB:

                                                   everything   without analysis
    objects in pages that processes share                  16                 11
    objects in a page of one process: supervisor            5                  7
                                      worker                7                  8
                                      analyzer              5
    libraries: code and constants                           9                  7
               tables that are written to                   3                  2
    the ring between worker and analyzer                    4

A worker makes only 0.6 MB of objects after the fork. Python counts references in the objects, so a page with an object in use is
copied. YAML, which took 2 MB, is read in a process that ends. Leaving out more imports saves little: asyncio, ssl, typing and
msgspec are half of what is imported, and the supervisor as a program of its own would need as much for asyncio alone as its
copies take.
"""

import contextlib
import itertools
import mmap
import multiprocessing
import os
import re
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kproxy.protocol import message
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.bench.filters import HEARTBEAT, METADATA, PRODUCE, VERSIONS, Broker, Frames, answered, asked
from tests.bench.forwarding import HAPROXY, HOST, our_haproxy
from tests.bench.measuring import calls, cpu_of, options_of, switches
from tests.support.frames import frame
from tests.support.haproxy import haproxy
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.messages import make
from tests.support.ports import free_ports
from tests.support.sockets import address

API_VERSIONS = 18
CONNECTIONS = 8
TOGETHER = 5  # requests that a connection sends before it reads
ROUND_S = 1.0
REST_S = 5.0
TRACED_S = 1.0
PRESENT, FRAME = 1 << 63, (1 << 55) - 1  # bits of an entry of /proc/PID/pagemap
CASES: dict[str, list[int]] = {
    "connections": [8, 1_000, 20_000],
    "brokers": [1, 3, 100],
    "clusters": [1, 50],
    "topics": [10, 10_000],
    "groups": [10, 10_000],
}


def beats(groups: int) -> list[bytes]:
    return [asked(HEARTBEAT, group_id=f"group-{number}", member_id="m") for number in range(groups)]


def produces(topics: int) -> list[bytes]:
    """A Produce of one record of 100 bytes to each topic."""
    records = write_batches([RecordBatch([Record(value=bytes(100))])])
    data = {"index": 0, "records": records}
    return [
        asked(
            PRODUCE,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[{"name": f"topic-{number}", "partition_data": [data]}],
        )
        for number in range(topics)
    ]


def serving(brokers: int) -> Broker:
    """A broker that answers all loads, and whose Metadata lists so many brokers, all at its own address."""
    broker = Broker()
    host, port = address(broker.address)
    named = [{"node_id": number, "host": host, "port": port} for number in range(brokers)]
    offered = [
        {"api_key": api_key, "min_version": VERSIONS[api_key], "max_version": VERSIONS[api_key]}
        for api_key in (HEARTBEAT, PRODUCE, METADATA)
    ]
    versions = make("ApiVersionsResponse", api_keys=offered)
    broker.answers = {
        API_VERSIONS: frame(bytes(4) + message("ApiVersionsResponse").encode(0, versions)),
        HEARTBEAT: answered(HEARTBEAT),
        PRODUCE: answered(PRODUCE),
        METADATA: answered(METADATA, brokers=named, cluster_id="scale"),
    }
    return broker


def drive(where: str, frames: Sequence[bytes], seconds: float) -> int:
    """Send *frames* in turn for so long, over some connections; how many were answered."""
    counts, until = [0] * CONNECTIONS, time.monotonic() + seconds

    def send(number: int) -> None:
        turn = itertools.cycle(frames[number::CONNECTIONS] or frames)
        with socket.create_connection(address(where)) as connected:
            answers = Frames(connected)
            while time.monotonic() < until:
                connected.sendall(b"".join(itertools.islice(turn, TOGETHER)))
                for _ in range(TOGETHER):
                    answers.next(4)
                counts[number] += TOGETHER

    threads = [threading.Thread(target=send, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(counts):
        raise RuntimeError(f"{where}: a connection had no answer")
    return sum(counts)


def memory(pids: Sequence[int]) -> float:
    """Memory of processes, in MB; a page that several have counts once, whoever else has it (see proc_pid_pagemap(5))."""
    if os.geteuid():
        raise SystemExit("only root may see which pages processes share")
    frames: set[int] = set()
    for pid in pids:
        with Path(f"/proc/{pid}/pagemap").open("rb") as pagemap:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                begin, end = (int(address, 16) // mmap.PAGESIZE for address in line.split()[0].split("-"))
                if not re.search(r"\[v(var|dso|syscall)", line):
                    pagemap.seek(begin * 8)
                    frames.update(page for page in array("Q", pagemap.read((end - begin) * 8)) if page & PRESENT)
    return len({page & FRAME for page in frames}) * mmap.PAGESIZE / 1e6


def hold(stack: contextlib.ExitStack, where: str, count: int) -> None:
    """Keep *count* connections open, in processes of their own."""
    context, each = multiprocessing.get_context("fork"), min(count, most_files() // 2)

    def connect(share: int, ready: Any) -> None:
        kept = [socket.create_connection(address(where), 60) for _ in range(share)]
        ready.put(len(kept))
        time.sleep(3_600)

    ready = context.Queue()
    for begun in range(0, count, each):
        process = context.Process(target=connect, args=(min(each, count - begun), ready), daemon=True)
        process.start()
        stack.callback(process.kill)
    for _ in range(0, count, each):
        ready.get(timeout=120)


def most_files() -> int:
    """Open files that a process may have here, less some for other things; the bench itself takes them all."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most - 500


def row(
    where: str, frames: Sequence[bytes], workers: list[int], analyzers: list[int], pids: list[int], rounds: int
) -> str:
    """Measure one proxy."""
    drive(where, frames, ROUND_S)
    rows = []
    for _ in range(rounds):
        before = cpu_of(workers), cpu_of(analyzers), switches(workers)
        count = drive(where, frames, ROUND_S)
        after = cpu_of(workers), cpu_of(analyzers), switches(workers)
        rows.append([(late - early) / count for early, late in zip(before, after, strict=True)])
    worker, analyzer, switched = (statistics.median(column) for column in zip(*rows, strict=True))
    called = calls(workers, lambda: drive(where, frames, TRACED_S))
    time.sleep(1)  # the analyzer ends what it has
    before_rest = cpu_of(pids)
    time.sleep(REST_S)
    rest = (cpu_of(pids) - before_rest) / REST_S
    beside = f"{analyzer * 1e6:8.1f}" if analyzers else f"{'-':>8}"
    return f"{worker * 1e6:8.1f} {beside} {switched:10.2f} {called:10.2f} {rest * 1e3:8.1f} {memory(pids):8.1f}"


def case(name: str, number: int, folder: Path, rounds: int) -> str:
    """One row: so many of what the case is about."""
    brokers = number if name == "brokers" else 1
    broker = serving(brokers)
    served = [
        {
            "name": f"c{at}",
            "listen": f"{HOST}:{free_ports(brokers + 1)}",
            "bootstrap": [broker.address],
            "addresses": {"node_ids": [f"0-{brokers - 1}"]},
        }
        for at in range(number if name == "clusters" else 1)
    ]
    frames = {"topics": produces, "groups": beats}.get(name, lambda _: beats(10))(number)
    workers = 3 if name == "connections" else 1
    proxy = Proxy(folder / f"{name}{number}", served, limits={"connections": 25_000}, workers=workers)
    with contextlib.ExitStack() as stack:
        stack.callback(proxy.close)
        proxy.start().analyzing()
        drive(proxy.bootstrap(), [asked(METADATA)], 0.2)  # it learns the brokers
        if name == "connections":
            hold(stack, proxy.bootstrap(), number)
        return row(proxy.bootstrap(), frames, proxy.workers(), proxy.named("kproxy-analyzer"), proxy.pids(), rounds)


def yardstick(folder: Path, rounds: int) -> str:
    """haproxy's row: one thread, TCP."""
    broker, port = serving(1), free_ports()
    text = HAPROXY.format(listen=f"{HOST}:{port}", broker=broker.address)
    with haproxy(folder, f"global\n nbthread 1\n{text}", port):
        pids = our_haproxy()
        return row(f"{HOST}:{port}", beats(10), pids[-1:], [], pids, rounds)


def counts(folder: Path) -> Iterator[str]:
    """System calls, context switches and calls of malloc a request: these do not depend on what else runs."""
    library = folder / "allocations.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", library, Path(__file__).with_suffix("").parent / "allocations.c"],
        check=True,
    )
    os.environ |= {"LD_PRELOAD": str(library), "ALLOCATIONS": str(folder), "PYTHONMALLOC": "malloc"}

    def allocated(pids: list[int]) -> int:
        return sum(int.from_bytes((folder / str(pid)).read_bytes(), "little") for pid in pids)

    def counted(where: str, **groups: list[int]) -> Iterator[str]:
        drive(where, beats(10), ROUND_S)
        before = [(switches(pids), allocated(pids)) for pids in groups.values()]
        count = drive(where, beats(10), ROUND_S)
        time.sleep(1)  # the analyzer ends what it has
        for (name, pids), (switched, made) in zip(groups.items(), before, strict=True):
            here = (switches(pids) - switched) / count, (allocated(pids) - made) / count
            called = calls(pids, lambda: drive(where, beats(10), TRACED_S))
            yield f"{name.replace('_', ' '):24} {called:8.2f} {here[0]:8.2f} {here[1]:11.2f}"

    yield f"{'a request':24} {'calls':>8} {'switches':>8} {'allocations':>11}"
    try:
        broker, port = serving(1), free_ports()
        text = f"global\n nbthread 1\n{HAPROXY.format(listen=f'{HOST}:{port}', broker=broker.address)}"
        with haproxy(folder, text, port):
            yield from counted(f"{HOST}:{port}", haproxy=our_haproxy()[-1:])
        proxy = Proxy(folder / "counts", [cluster([broker.address])])
        with contextlib.closing(proxy):
            proxy.start().analyzing()
            yield from counted(
                proxy.bootstrap(), kproxy_worker=proxy.workers(), kproxy_analyzer=proxy.named("kproxy-analyzer")
            )
    finally:
        for name in ("LD_PRELOAD", "ALLOCATIONS", "PYTHONMALLOC"):
            del os.environ[name]


def start(folder: Path) -> Iterator[str]:
    """How soon `kproxy run` accepts, and its memory after that."""
    for name, settings in (("everything", {}), ("without analysis", {"analysis": {"enabled": False}})):
        broker = serving(1)
        firsts: list[float] = []
        for turn in range(3):
            proxy: Any = Proxy(folder / f"{name}{turn}", [cluster([broker.address])], **settings)
            began = time.monotonic()
            proxy.begin()
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(address(proxy.bootstrap())).close()
                    break
                time.sleep(0.002)
            firsts.append(time.monotonic() - began)
            time.sleep(2)  # all processes are there
            used = memory(proxy.pids())
            proxy.get("/metrics")
            scraped = memory(proxy.pids())
            proxy.close()
        first = statistics.median(firsts)
        yield f"start, {name:<18} first accept after {first:.2f} s, {used:.0f} MB, {scraped:.0f} MB once metrics were scraped"


def main() -> None:
    """Run the rows."""
    given = options_of(__doc__, rounds=3, only=["start", "counts", *CASES])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for line in itertools.chain(*(lines(folder) for lines in (start, counts) if lines.__name__ in given.only)):
            print(line, flush=True)
        chosen = [name for name in CASES if name in given.only]
        if chosen:
            print(f"{'':24} {'worker':>8} {'analyzer':>8} {'switches':>10} {'calls':>10} {'at rest':>8} {'MB':>8}")
            print(f"{'haproxy':24} {yardstick(folder, given.rounds)}", flush=True)
        for each in chosen:
            for number in (min(number, most_files()) for number in CASES[each]):
                print(f"{each:16}{number:>8,} {case(each, number, folder, given.rounds)}", flush=True)


if __name__ == "__main__":
    main()
