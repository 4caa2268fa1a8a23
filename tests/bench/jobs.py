"""`kproxy decode --jobs N` against `--jobs 1` on the same large capture: seconds by the clock, and the same output.

    python -m tests.bench.jobs [--jobs 2] [--megabytes 400] [--rounds 3] [--shapes mtu1500,loopback,tiny,mixed]

In turn, in one run; medians, and the spread of the rounds' ratios. Cores that others use spoil it: look at the load first.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.shapes import SHAPES

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode"]


def seconds(jobs: int, capture: Path, output: Path) -> float:
    begun = time.monotonic()
    command = [*KPROXY, "-q", "--format", "jsonl", "--jobs", str(jobs), "-o", str(output), str(capture)]
    subprocess.run(command, check=True)
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        capture, one, several = (Path(folder) / name for name in ("capture.pcap", "one.jsonl", "several.jsonl"))
        for shape in arguments.shapes.split(","):
            exchanges = SHAPES[shape](capture, arguments.megabytes * 1_000_000)
            rows = []
            for _ in range(arguments.rounds):
                rows.append((seconds(1, capture, one), seconds(arguments.jobs, capture, several)))
                assert one.read_bytes() == several.read_bytes()
            ratios = [alone / together for alone, together in rows]
            alone, together = (statistics.median(row[side] for row in rows) for side in (0, 1))
            print(
                f"{shape}: {exchanges:,} exchanges, {alone:.2f} s, with {arguments.jobs} jobs {together:.2f} s"
                f"   x{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
