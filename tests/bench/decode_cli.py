"""`kproxy decode` against tshark on the same capture: CPU seconds of the whole process, start-up included.

    python -m tests.bench.decode_cli [--shapes mtu1500,loopback,tiny,mixed] [--megabytes 1,5,26,100] [--rounds 3]
                                     [--only jsonl,text] [--kproxy COMMAND]

`--format jsonl` against `tshark -T json`, `--format text` against `tshark -T fields -e kafka.api_key`, in turn; medians of the
rounds and of their ratios, with the spread. The shapes are in shapes.py. Needs tshark. With --kproxy another kproxy is timed
in place of this tree's: the path of its command.
"""

import argparse
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.shapes import SHAPES

KPROXY = f"{shlex.quote(sys.executable)} -c 'from kproxy.cli import main; main()'"
TSHARK = {"jsonl": ["-T", "json"], "text": ["-T", "fields", "-e", "kafka.api_key"]}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of *command* and its children; what it prints is thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}: {run.stderr[-2_000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def count_exchanges(kproxy: list[str], path: Path) -> int:
    """Lines that `--format jsonl` prints: a benchmark of a program that loses exchanges is worth nothing."""
    command = [*kproxy, "decode", "--format", "jsonl", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        return sum(1 for line in run.stdout if b'"undecoded":null' in line)


def compare(kproxy: list[str], output: str, path: Path, rounds: int) -> str:
    ours = [*kproxy, "decode", "--format", output, str(path)]
    theirs = ["tshark", *TSHARK[output], "-r", str(path)]
    rows = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
    ratios = [b / a for a, b in rows]
    ours_median, theirs_median = (statistics.median(row[side] for row in rows) for side in (0, 1))
    size = path.stat().st_size / 1e6
    return (
        f"  {output:<6} {ours_median:7.3f} s ({size / ours_median:6.1f} MB/s)"
        f"   tshark {' '.join(TSHARK[output]):<25} {theirs_median:7.3f} s ({size / theirs_median:6.1f} MB/s)"
        f"   x{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--megabytes", default="1,5,26,100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(TSHARK))
    parser.add_argument("--kproxy", default=KPROXY)
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed: there is nothing to compare with")
    if arguments.kproxy == KPROXY:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    kproxy = shlex.split(arguments.kproxy)
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        for shape in arguments.shapes.split(","):
            for megabytes in arguments.megabytes.split(","):
                path = Path(folder) / f"{shape}.pcap"
                exchanges = SHAPES[shape](path, int(float(megabytes) * 1_000_000))
                decoded, size = count_exchanges(kproxy, path), path.stat().st_size / 1e6
                print(f"{shape}: {size:.1f} MB, {decoded:,} of {exchanges:,} exchanges decoded", flush=True)
                for output in arguments.only.split(","):
                    print(compare(kproxy, output, path, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
