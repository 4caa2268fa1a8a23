"""`kproxy decode` against tshark on the same large capture: CPU seconds of the whole process.

    python -m tests.bench.decode_cli [--megabytes 100] [--rounds 3] [--only jsonl,text]

For packets of MTU 1500 and of the loopback: `--format jsonl` against `tshark -T json`, `--format text` against
`tshark -T fields -e kafka.api_key`, in turn; medians, and the spread of the rounds' ratios. Needs tshark.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.traffic import SEGMENT, write_capture

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode"]
PAIRS = {
    "jsonl": ([*KPROXY, "--format", "jsonl"], ["tshark", "-T", "json", "-r"]),
    "text": ([*KPROXY, "--format", "text"], ["tshark", "-T", "fields", "-e", "kafka.api_key", "-r"]),
}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of *command* and its children; what it prints is thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}: {run.stderr[-2_000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def count_exchanges(path: Path) -> int:
    """Lines that `--format jsonl` prints: a benchmark of a program that loses exchanges is worth nothing."""
    with subprocess.Popen(
        [*KPROXY, "--format", "jsonl", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as run:
        assert run.stdout is not None
        return sum(1 for line in run.stdout if b'"undecoded":null' in line.replace(b" ", b""))


def compare(output: str, path: Path, rounds: int) -> str:
    ours, theirs = ([*command, str(path)] for command in PAIRS[output])
    rows = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
    ratios = [b / a for a, b in rows]
    ours_median, theirs_median = (statistics.median(row[side] for row in rows) for side in (0, 1))
    size = path.stat().st_size / 1e6
    return (
        f"  {output:<6} {ours_median:7.2f} s ({size / ours_median:6.1f} MB/s)"
        f"   {' '.join(PAIRS[output][1][:5]):<32} {theirs_median:7.2f} s ({size / theirs_median:6.1f} MB/s)"
        f"   x{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PAIRS))
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed: there is nothing to compare with")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        for kind in SEGMENT:
            path = Path(folder) / f"{kind}.pcap"
            exchanges = write_capture(path, arguments.megabytes * 1_000_000, kind)
            decoded = count_exchanges(path)
            print(f"{kind}: {path.stat().st_size / 1e6:.0f} MB, {decoded} of {exchanges} exchanges decoded", flush=True)
            for output in arguments.only.split(","):
                print(compare(output, path, arguments.rounds), flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
