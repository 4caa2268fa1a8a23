"""How the benchmarks measure on a noisy machine: in turn, A B A B, CPU time rather than the clock, medians with their spread."""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Work = Callable[[], object]
KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()"]  # of this tree; see ``started``


class Cost(NamedTuple):
    """What a command cost."""

    cpu: float  # seconds, of all its threads and of the processes that it waited for
    seconds: float
    megabytes: float  # peak resident memory of the largest of them

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} CPU s  {self.seconds:6.2f} s  {self.megabytes:5.0f} MB"


def cost(command: Sequence[str], **options: Any) -> Cost:
    """Run a command, throwing away what it prints. Raises CalledProcessError where it fails."""
    began = time.monotonic()
    process = subprocess.Popen(command, **{"stdout": subprocess.DEVNULL, **options})
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024)


def options_of(doc: str | None, words: str = "", **defaults: Any) -> argparse.Namespace:
    """What the command line says: an option for each default; lists are written with commas, False is a switch.

    With *words*, what is no option is a list of that name.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if words:
        parser.add_argument(words, nargs="+")
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(option, action="store_true")
        elif isinstance(default, list):
            kind = type(default[0])
            parser.add_argument(option, type=lambda text, kind=kind: [*map(kind, text.split(","))], default=default)
        else:
            parser.add_argument(option, type=str if default is None else type(default), default=default)
    return parser.parse_args()


@contextmanager
def started(folder: str | Path | None = None) -> Iterator[Path]:
    """A temporary folder. Commands in the block find this tree, and compiled modules, as an installed kproxy has them."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="kproxy-bench-", dir=folder) as name:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/bytecode"
        yield Path(name)


def spread(ratios: Sequence[float], digits: int = 1) -> str:
    """ "x2.0 (1.9-2.2)": the median of some rounds' own ratios, and the least and the most."""
    return f"x{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f}-{max(ratios):.{digits}f})"


def cpu_of(pids: Sequence[int]) -> float:
    """CPU seconds of running processes so far."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def switches(pids: Sequence[int]) -> int:
    """Context switches of the main threads so far."""
    text = "".join(Path(f"/proc/{pid}/status").read_text() for pid in pids)
    return sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", text)))


def calls(pids: Sequence[int], work: Callable[[], int]) -> float:
    """System calls of processes for each of what *work* counts; not a number without strace."""
    if not shutil.which("strace"):
        return float("nan")
    which = [word for pid in pids for word in ("-p", str(pid))]
    trace = subprocess.Popen(["strace", "-c", "-f", *which], stderr=subprocess.PIPE, text=True)
    count = work()
    trace.terminate()
    lines = trace.communicate()[1].splitlines()
    total = next(line for line in lines if line.endswith("total")).split()
    return int(total[3]) / count


@dataclass(slots=True)
class Ratio:
    """Seconds of CPU a call, and how many times the second was slower, round by round."""

    ours: float
    theirs: float
    ratios: list[float]

    def line(self, name: str, other: str) -> str:
        return f"{name:<28} {self.ours * 1e6:10.1f} us  {other:<26} {self.theirs * 1e6:10.1f} us  {spread(self.ratios)}"


def paired(ours: Work, theirs: Work, rounds: int = 21, seconds: float = 0.05) -> Ratio:
    """Both in turn, *rounds* times, each for about *seconds* a round."""
    counts = [_calls_in(work, seconds) for work in (ours, theirs)]
    rows = [(_cpu(ours, counts[0]), _cpu(theirs, counts[1])) for _ in range(rounds)]
    medians = [statistics.median(row[side] for row in rows) for side in (0, 1)]
    return Ratio(*medians, [b / a for a, b in rows])


def cpu_a_call(work: Work, rounds: int = 21, seconds: float = 0.05) -> float:
    """Median CPU seconds of one call."""
    count = _calls_in(work, seconds)
    return statistics.median(_cpu(work, count) for _ in range(rounds))


def _calls_in(work: Work, seconds: float) -> int:
    work()
    return max(1, int(seconds / max(_cpu(work, 3), 1e-7)))


def _cpu(work: Work, count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count
