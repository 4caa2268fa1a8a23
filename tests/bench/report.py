"""`kproxy report` against the time that tshark needs to read the same capture; and its memory as captures grow.

    python -m tests.bench.report [--shape mixed] [--megabytes 200,1000] [--tshark] [--rounds 3]

For each size: CPU seconds, seconds and peak memory of `kproxy report`, its first answer and the whole; the seconds until the
first answer is there, for a person at a terminal and through pipes. With --tshark the same of `tshark -r FILE` (a line a packet),
in turn with the first answers, whose part of its seconds is shown; and once of `-T fields -e kafka.api_key` (what a script would
read) and `-V` (all fields as text), with the ratios of CPU seconds.
"""

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.bench.shapes import SHAPES

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()", "report"]
FIRST = b"First answer, from "
TSHARK = {"-T fields": ["-T", "fields", "-e", "kafka.api_key"], "-V": ["-V"]}


class Cost(NamedTuple):
    """What a command cost."""

    cpu: float  # seconds, of all its threads
    seconds: float
    megabytes: float  # peak memory

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} CPU s  {self.seconds:6.2f} s  {self.megabytes:5.0f} MB"


def cost(command: list[str]) -> Cost:
    """Run a command with the processes that it forks, throw away what it prints. The memory is that of the largest of them."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024)


def first_on_terminal(path: Path) -> float:
    """Seconds until the first answer stands on a terminal that is standard output and standard error."""
    began = time.monotonic()
    process, terminal = pty.fork()
    if not process:
        os.execv(KPROXY[0], [*KPROXY, str(path)])
    shown, first = b"", None
    with suppress(OSError), open(terminal, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor
        while data := stream.read(65_536):
            shown += data
            if first is None and FIRST in shown:
                first = time.monotonic() - began
    os.waitpid(process, 0)
    return time.monotonic() - began if first is None else first


def first_in_pipes(path: Path) -> float:
    """Seconds until the first answer is in the pipe that is standard error; standard output is another."""
    began = time.monotonic()
    with subprocess.Popen([*KPROXY, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = next((time.monotonic() - began for line in process.stderr if line.startswith(FIRST)), None)
        process.communicate()
    return time.monotonic() - began if first is None else first


def compare_first(path: Path, rounds: int, *, tshark: bool) -> None:
    """Print the medians of some rounds, in which one comes after the other."""
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        seconds.setdefault("terminal", []).append(first_on_terminal(path))
        seconds.setdefault("pipes", []).append(first_in_pipes(path))
        if tshark:
            seconds.setdefault("tshark", []).append(cost(["tshark", "-r", str(path)]).seconds)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name in ("terminal", "pipes"):
        share = f"  {medians[name] / medians['tshark']:.2f} of tshark -r, {medians['tshark']:.2f} s" if tshark else ""
        print(f"  first answer, {name:<8}  {medians[name]:6.2f} s{share}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="mixed", choices=SHAPES)
    parser.add_argument("--megabytes", default="200,1000")
    parser.add_argument("--tshark", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-") as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder  # compiled modules, as an installed kproxy has
        for megabytes in arguments.megabytes.split(","):
            path = Path(folder, f"{arguments.shape}.pcap")
            exchanges = SHAPES[arguments.shape](path, int(megabytes) * 1_000_000)
            ours = cost([*KPROXY, str(path)])
            print(
                f"{arguments.shape}, {megabytes} MB, {exchanges:,} exchanges\n  kproxy report      {ours}", flush=True
            )
            compare_first(path, arguments.rounds, tshark=arguments.tshark)
            for name, options in {"-r": [], **TSHARK}.items() if arguments.tshark else ():
                theirs = cost(["tshark", "-r", str(path), *options])
                print(f"  tshark {name:<10}  {theirs}  x{theirs.cpu / ours.cpu:.2f}", flush=True)


if __name__ == "__main__":
    main()
