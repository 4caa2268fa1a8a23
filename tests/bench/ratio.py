"""Comparing two ways of doing the same thing on a noisy machine: in turn, A B A B, CPU time, medians."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(slots=True)
class Ratio:
    """Seconds of CPU a call, and how many times the second was slower, round by round."""

    ours: float
    theirs: float
    times: float  # median of the rounds' own ratios
    least: float
    most: float

    def line(self, name: str, other: str) -> str:
        spread = f"{self.least:.1f}-{self.most:.1f}"
        return f"{name:<28} {self.ours * 1e6:10.1f} us  {other:<26} {self.theirs * 1e6:10.1f} us  x{self.times:.1f} ({spread})"


def paired(ours: Work, theirs: Work, rounds: int = 21, seconds: float = 0.05) -> Ratio:
    """Both in turn, *rounds* times, each for about *seconds* a round."""
    counts = [_calls_in(work, seconds) for work in (ours, theirs)]
    rows = []
    for _ in range(rounds):
        rows.append((_cpu(ours, counts[0]), _cpu(theirs, counts[1])))
    ratios = [b / a for a, b in rows]
    return Ratio(
        ours=statistics.median(a for a, _ in rows),
        theirs=statistics.median(b for _, b in rows),
        times=statistics.median(ratios),
        least=min(ratios),
        most=max(ratios),
    )


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
