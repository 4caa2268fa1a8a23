"""`kproxy report` against the time that tshark needs to read the same capture; and its memory as captures grow.

    python -m tests.bench.report [--shape mixed] [--megabytes 200,1000] [--tshark] [--rounds 3]

For each size: CPU seconds, seconds and peak memory of `kproxy report`, its first answer and the whole; the seconds until the
first answer is there, for a person at a terminal and through pipes. With --tshark the same of `tshark -r FILE` (a line a packet),
in turn with the first answers, whose part of its seconds is shown; and once of `-T fields -e kafka.api_key` (what a script would
read) and `-V` (all fields as text), with the ratios of CPU seconds.
"""

import os
import pty
import statistics
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.bench.measuring import KPROXY, cost, options_of, started
from tests.bench.traffic import SHAPES

REPORT = [*KPROXY, "report"]
FIRST = b"First answer, from "
TSHARK = {"-r": [], "-T fields": ["-T", "fields", "-e", "kafka.api_key"], "-V": ["-V"]}


def first_on_terminal(path: Path) -> float:
    """Seconds until the first answer stands on a terminal that is standard output and standard error."""
    began = time.monotonic()
    process, terminal = pty.fork()
    if not process:
        os.execv(REPORT[0], [*REPORT, str(path)])
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
    with subprocess.Popen([*REPORT, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = next((time.monotonic() - began for line in process.stderr if line.startswith(FIRST)), None)
        process.communicate()
    return time.monotonic() - began if first is None else first


def compare_first(path: Path, rounds: int, *, tshark: bool) -> None:
    """Print the medians of some rounds, in which one comes after the other."""
    seconds: dict[str, list[float]] = {"terminal": [], "pipes": [], "tshark": []}
    for _ in range(rounds):
        seconds["terminal"].append(first_on_terminal(path))
        seconds["pipes"].append(first_in_pipes(path))
        seconds["tshark"].append(cost(["tshark", "-r", str(path)]).seconds if tshark else 0)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name in ("terminal", "pipes"):
        share = f"  {medians[name] / medians['tshark']:.2f} of tshark -r, {medians['tshark']:.2f} s" if tshark else ""
        print(f"  first answer, {name:<8}  {medians[name]:6.2f} s{share}", flush=True)


def main() -> None:
    given = options_of(__doc__, shape="mixed", megabytes=[200, 1_000], tshark=False, rounds=3)
    with started() as folder:
        for megabytes in given.megabytes:
            path = folder / "traffic.pcap"
            exchanges = SHAPES[given.shape](path, megabytes * 1_000_000)
            ours = cost([*REPORT, str(path)], stderr=subprocess.DEVNULL)
            print(f"{given.shape}, {megabytes} MB, {exchanges:,} exchanges\n  kproxy report      {ours}", flush=True)
            compare_first(path, given.rounds, tshark=given.tshark)
            for name, words in TSHARK.items() if given.tshark else ():
                theirs = cost(["tshark", "-r", str(path), *words], stderr=subprocess.DEVNULL)
                print(f"  tshark {name:<10}  {theirs}  x{theirs.cpu / ours.cpu:.2f}", flush=True)


if __name__ == "__main__":
    main()
