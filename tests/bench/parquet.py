"""`kproxy decode --format parquet` on large captures: MB of capture for a second of CPU, and the most memory it took.

    python -m tests.bench.parquet [--megabytes 100,400] [--rounds 3] [--records]

CPU seconds are those of the whole process, start-up and imports included, user and system, all threads; the rate is the size
of the capture file over them, medians over the rounds. Memory is the peak resident size of the process: it must not grow from
the smaller capture to the larger. Traffic: `mtu1500` and `loopback` are tests/bench/traffic.py's (1 KB records in batches of
16 KB to 1 MB, packets of that size); `small` is one record of 1 KB a Produce request, so that what an exchange costs shows.
`--format jsonl` of the same capture stands beside it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from tests.bench import traffic

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode", "--quiet"]


def write_small(path: Path, size: int) -> int:
    """A capture of Produce requests with one record of 1 KB each; the number of exchanges in it."""
    batch = traffic.record_batch(Random(9092), 1024)
    at, exchanges = 1_763_000_000_000_000, 0
    with path.open("wb") as out:
        out.write(traffic.file_header())
        connections = [traffic.Connection(out, number, traffic.SEGMENT["loopback"]) for number in range(8)]
        for connection in connections:
            connection.open(at)
        while out.tell() < size:
            for side, data in enumerate(traffic.produce_v8(exchanges, batch)):
                connections[exchanges % 8].send(side, data, at + 900 * side)
            at += 1_500
            exchanges += 1
    return exchanges


def measure(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MB of a process of its own."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def line(kind: str, path: Path, out: Path, exchanges: int, rounds: int, more: list[str]) -> str:
    """One line of the report. Exits when exchanges are missing: a fast loss is worth nothing."""
    runs = [measure([*KPROXY, "--format", "parquet", *more, "-o", str(out), str(path)]) for _ in range(rounds)]
    rows = pq.read_metadata(out / "exchanges" / "part-00000.parquet").num_rows
    if rows != exchanges:
        sys.exit(f"{kind}: {rows} exchanges of {exchanges}")
    jsonl = statistics.median(measure([*KPROXY, "--format", "jsonl", str(path)])[0] for _ in range(rounds))
    size = path.stat().st_size / 1e6
    seconds, memory = statistics.median(cpu for cpu, _ in runs), max(peak for _, peak in runs)
    spread = f"{size / max(cpu for cpu, _ in runs):.0f}-{size / min(cpu for cpu, _ in runs):.0f}"
    written = sum(file.stat().st_size for file in out.rglob("*.parquet")) / 1e6
    return (
        f"{kind:<9} {size:6.0f} MB {exchanges:8,} exchanges  {seconds:6.2f} s  {size / seconds:6.0f} MB/s ({spread})  "
        f"peak {memory:4.0f} MB  {written:6.1f} MB written  jsonl {size / jsonl:5.0f} MB/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="100,400")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    for megabytes in map(int, arguments.megabytes.split(",")):
        for kind in (*traffic.SEGMENT, "small"):
            with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
                path, size = Path(folder) / f"{kind}.pcap", megabytes * 1_000_000
                exchanges = write_small(path, size) if kind == "small" else traffic.write_capture(path, size, kind)
                more = ["--records"] if arguments.records else []
                print(line(kind, path, Path(folder) / "tables", exchanges, arguments.rounds, more), flush=True)


if __name__ == "__main__":
    main()
