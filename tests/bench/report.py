"""`kproxy report` against the time that tshark needs to read the same capture; and its memory as captures grow.

    python -m tests.bench.report [--shape mixed] [--megabytes 200,1000] [--tshark]

For each size: CPU seconds, seconds and peak memory of `kproxy report`; with --tshark the same of `tshark -r FILE` (a line a
packet), `-T fields -e kafka.api_key` (what a script would read) and `-V` (all fields as text), and the ratios of CPU seconds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.shapes import SHAPES

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()", "report", "-q"]
TSHARK = {"-r": [], "-T fields": ["-T", "fields", "-e", "kafka.api_key"], "-V": ["-V"]}


class Cost(NamedTuple):
    """What a command cost."""

    cpu: float  # seconds, of all its threads
    seconds: float
    megabytes: float  # peak memory

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} CPU s  {self.seconds:6.2f} s  {self.megabytes:5.0f} MB"


def cost(command: list[str]) -> Cost:
    """Run a command, throw away what it prints."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="mixed", choices=SHAPES)
    parser.add_argument("--megabytes", default="200,1000")
    parser.add_argument("--tshark", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        for megabytes in arguments.megabytes.split(","):
            path = Path(folder, f"{arguments.shape}.pcap")
            exchanges = SHAPES[arguments.shape](path, int(megabytes) * 1_000_000)
            ours = cost([*KPROXY, str(path)])
            print(
                f"{arguments.shape}, {megabytes} MB, {exchanges:,} exchanges\n  kproxy report      {ours}", flush=True
            )
            for name, options in TSHARK.items() if arguments.tshark else ():
                theirs = cost(["tshark", "-r", str(path), *options])
                print(f"  tshark {name:<10}  {theirs}  x{theirs.cpu / ours.cpu:.2f}", flush=True)


if __name__ == "__main__":
    main()
