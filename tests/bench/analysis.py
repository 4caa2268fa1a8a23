"""Time of the analyzer for an exchange, without sockets: `python -m tests.bench.analysis [--rounds 5] [--exchanges 20000]`.

The records of a tap ring are made beforehand and given to the analyzer's decoder: Heartbeats, Produce and Fetch with a record of
1 KB, on CONNECTIONS connections in turn. ``tap`` counts and keeps the last exchanges for a page, as ``kproxy run`` does by
default; ``log`` writes the decoded log too, ``capture`` a capture.

Printed is the CPU time of the fastest twentieth of all batches: other work on the machine makes the others slower, but not these.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from struct import pack

import msgspec

from kproxy.config import Rotated
from kproxy.pipeline.output import Output
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.sink import RotatingFile
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.page_feed import Past
from kproxy.proxy.analyzer.process import FILES, rotating_file
from kproxy.proxy.analyzer.tap_decoder import TapDecoder
from kproxy.proxy.tap.tapped import Opened, TapItem, TapKind
from tests.bench.measuring import options_of
from tests.bench.traffic import NO_TAGS, compact, compact_array
from tests.support.frames import batch, record, request, response

CONNECTIONS = 16
BATCH = 128  # records of a ring that are decoded at a time
PAST = 4 << 20  # bytes
GAP = 40_000  # ns between a request and its response
BEGAN = 1_700_000_000_000_000_000

Pair = tuple[bytes, bytes]


def heartbeat(number: int) -> Pair:
    body = compact(b"bench-group-name-of-a-usual-length") + pack(">i", 7)
    body += compact(b"consumer-1-0f5f3c1e-7f5c-4c89-9f0b-7c0a6a0b1f2e") + compact(None) + NO_TAGS
    return request(12, 4, number, body, tags=NO_TAGS), response(number, pack(">ih", 0, 0) + NO_TAGS, tags=NO_TAGS)


def produce(number: int) -> Pair:
    partition = pack(">i", 0) + compact(RECORDS) + NO_TAGS
    topic = compact(b"bench") + compact_array([partition]) + NO_TAGS
    answer = pack(">ihqqq", 0, 0, number, -1, 0) + compact_array([]) + compact(None) + NO_TAGS
    answered = compact(b"bench") + compact_array([answer]) + NO_TAGS
    return (
        request(0, 9, number, compact(None) + pack(">hi", -1, 30_000) + compact_array([topic]) + NO_TAGS, tags=NO_TAGS),
        response(number, compact_array([answered]) + pack(">i", 0) + NO_TAGS, tags=NO_TAGS),
    )


def fetch(number: int) -> Pair:
    wanted = pack(">iiqiqi", 0, 0, number, -1, -1, 1 << 20) + NO_TAGS
    topic = compact(b"bench") + compact_array([wanted]) + NO_TAGS
    head = pack(">iiiibii", -1, 500, 1, 50 << 20, 0, 0, -1)
    answer = pack(">ihqqq", 0, 0, number + 1, number + 1, 0) + b"\0" + pack(">i", -1) + compact(RECORDS) + NO_TAGS
    answered = compact(b"bench") + compact_array([answer]) + NO_TAGS
    return (
        request(
            1, 12, number, head + compact_array([topic]) + compact_array([]) + compact(b"") + NO_TAGS, tags=NO_TAGS
        ),
        response(number, pack(">ihi", 0, 0, 0) + compact_array([answered]) + NO_TAGS, tags=NO_TAGS),
    )


RECORDS = batch(record(None, bytes(range(256)) * 4), 1)
KINDS: dict[str, Callable[[int], Pair]] = {"heartbeat": heartbeat, "produce": produce, "fetch": fetch}


def records_of(kind: Callable[[int], Pair], exchanges: int) -> list[TapItem]:
    """The records of a ring: connections begin, then each has an exchange in turn."""
    items: list[TapItem] = []
    for number in range(1, CONNECTIONS + 1):
        opened = Opened(number, "main", f"10.0.0.7:{40_000 + number}", "10.0.0.1:9092", from_start=True)
        items.append((TapKind.OPEN, number, 0, BEGAN, msgspec.json.encode(opened), 0))
    for at in range(exchanges):
        number, time_ns = 1 + at % CONNECTIONS, BEGAN + at * 2 * GAP
        sent, answered = kind(at)
        items.append((TapKind.DATA, number, 0, time_ns, sent, GAP // 8))
        items.append((TapKind.DATA, number, 1, time_ns + GAP, answered, GAP // 8))
    return items


def outputs_of(mode: str, folder: Path) -> Iterator[Output]:
    yield AnalysisCounts()
    yield Past(PAST)
    if mode in FILES:
        yield FILES[mode](_file(folder / mode))


def _file(path: Path) -> RotatingFile:
    return rotating_file(Rotated(path=str(path)), time.monotonic, print)


def costs_of(mode: str, items: list[TapItem], exchanges: int) -> list[float]:
    """Microseconds an exchange, of each batch."""
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Options(contain=(Exception,)), outputs_of(mode, Path(folder)))
        decoder = TapDecoder(run.open_live("worker 0"))
        for at in range(0, len(items), BATCH):
            batch_of_items = items[at : at + BATCH]
            began = time.thread_time()
            decoder.decode(batch_of_items)
            costs.append((time.thread_time() - began) / len(batch_of_items) * 2e6)
        assert decoder.connections.requests == exchanges
        run.close()
    return costs


def main() -> None:
    given = options_of(__doc__, rounds=5, exchanges=20_000, kinds=[*KINDS], modes=["tap", "log", "capture"])
    for kind in given.kinds:
        items = records_of(KINDS[kind], given.exchanges)
        rows = [[costs_of(mode, items, given.exchanges) for mode in given.modes] for _ in range(given.rounds)]
        columns = [sorted(chain.from_iterable(column)) for column in zip(*rows, strict=True)]
        fastest = [column[len(column) // 20] for column in columns]
        print(
            kind,
            *(f"{mode} {us:.1f}" for mode, us in zip(given.modes, fastest, strict=True)),
            "us an exchange",
            flush=True,
        )


if __name__ == "__main__":
    main()
