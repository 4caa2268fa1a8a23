"""`kproxy decode --format parquet` on large captures: MB of capture for a second of CPU, and the most memory it took.

    python -m tests.bench.parquet [--megabytes 100,400] [--rounds 3] [--records]

CPU seconds are those of the whole process, start-up and imports included, user and system, all threads; the rate is the size
of the capture file over them, medians over the rounds. Memory is the peak resident size of the process: it must not grow from
the smaller capture to the larger. Traffic: `mtu1500` and `loopback` of traffic.py; `small` is one record of 1 KB a Produce
request, so that what an exchange costs shows. `--format jsonl` of the same capture stands beside it.
"""

import statistics
import sys
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from tests.bench import traffic
from tests.bench.measuring import KPROXY, cost, options_of, started

DECODE = [*KPROXY, "decode", "--quiet"]


def write_small(path: Path, size: int) -> int:
    """A capture of Produce requests with one record of 1 KB each; the number of exchanges in it."""
    batch = traffic.record_batch(Random(9092), 1024)
    at, exchanges = traffic.FIRST_AT, 0
    with path.open("wb") as out:
        out.write(traffic.file_header())
        connections = [traffic.Connection(out, number, traffic.SEGMENT["loopback"]) for number in range(8)]
        for connection in connections:
            connection.open(at)
        while out.tell() < size:
            traffic.send(connections[exchanges % 8], traffic.produce_v8(exchanges, batch), at)
            at += 1_500
            exchanges += 1
    return exchanges


def line(kind: str, path: Path, exchanges: int, rounds: int, more: list[str]) -> str:
    """One line of the report. Exits when exchanges are missing: a fast loss is worth nothing."""
    out = path.with_name("tables")
    runs = [cost([*DECODE, "--format", "parquet", *more, "-o", str(out), str(path)]) for _ in range(rounds)]
    rows = pq.read_metadata(out / "exchanges" / "part-00000.parquet").num_rows
    if rows != exchanges:
        sys.exit(f"{kind}: {rows} exchanges of {exchanges}")
    jsonl = statistics.median(cost([*DECODE, "--format", "jsonl", str(path)]).cpu for _ in range(rounds))
    size = path.stat().st_size / 1e6
    cpu = sorted(run.cpu for run in runs)
    written = sum(file.stat().st_size for file in out.rglob("*.parquet")) / 1e6
    return (
        f"{kind:<9} {size:6.0f} MB {exchanges:8,} exchanges  {statistics.median(cpu):6.2f} s  "
        f"{size / statistics.median(cpu):6.0f} MB/s ({size / cpu[-1]:.0f}-{size / cpu[0]:.0f})  "
        f"peak {max(run.megabytes for run in runs):4.0f} MB  {written:6.1f} MB written  jsonl {size / jsonl:5.0f} MB/s"
    )


def main() -> None:
    given = options_of(__doc__, megabytes=[100, 400], rounds=3, records=False)
    for megabytes in given.megabytes:
        for kind in (*traffic.SEGMENT, "small"):
            with started() as folder:
                path, size = folder / f"{kind}.pcap", megabytes * 1_000_000
                exchanges = write_small(path, size) if kind == "small" else traffic.write_capture(path, size, kind)
                print(line(kind, path, exchanges, given.rounds, ["--records"] if given.records else []), flush=True)


if __name__ == "__main__":
    main()
