"""Add up the counts of all analyzer processes of a run: each process counts from 0, and /metrics must never go down.

AnalyzerTotals is for AnalyzerCounts, SeriesTotals for one kind of AnalyzerSeries. Values of the moment (lag, open connections,
waiting bytes) are those of the present process. As many names from traffic are kept as one process keeps; the names of earlier
processes beyond that are counted as OTHER.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from kproxy.proxy.messages import AnalyzerCounts

Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = tuple[Labels, list[int]]
MOST_SERIES, OTHER = 1_000, "__other__"  # as in analyzer/series.py, whose imports the supervisor does not need
_OF_THE_MOMENT = ("at", "connections", "waiting_bytes", "most_lag_ns")


class AnalyzerTotals:
    """Adds the last counts of processes that have ended to those of the present one."""

    def __init__(self) -> None:
        self._before = AnalyzerCounts()
        self._counts: AnalyzerCounts | None = None
        self._total: AnalyzerCounts | None = None  # None: not added up yet

    def note(self, counts: AnalyzerCounts) -> None:
        """Note what the present process has counted."""
        self._counts, self._total = counts, None

    def end(self) -> None:
        """Note that the process has ended: the next one counts from 0."""
        if self._counts is not None:
            self._before = _added(self._before, self._counts)
            self._counts = AnalyzerCounts(at=self._counts.at)
            self._total = None

    @property
    def total(self) -> AnalyzerCounts | None:
        """The sum of all processes; None before the first counts."""
        if self._total is None and self._counts is not None:
            self._total = _added(self._before, self._counts)
        return self._total


def _added(before: AnalyzerCounts, counts: AnalyzerCounts) -> AnalyzerCounts:
    return msgspec.structs.replace(
        counts,
        **{
            name: _sum(getattr(before, name), getattr(counts, name))
            for name in counts.__struct_fields__
            if name not in _OF_THE_MOMENT
        },
    )


def _sum(before: Any, value: Any) -> Any:
    """Add two values of the same field: numbers, rows, dicts or structs of them."""
    if isinstance(value, int):
        return before + value
    if isinstance(value, list):
        return _sum_of_rows(before, value)
    if isinstance(value, dict):
        return {name: _sum_of(before.get(name), value.get(name)) for name in before | value}
    return type(value)(*map(_sum, msgspec.structs.astuple(before), msgspec.structs.astuple(value)))


def _sum_of(before: Any, value: Any) -> Any:
    return value if before is None else before if value is None else _sum(before, value)


def _sum_of_rows(before: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Add rows of names and a count."""
    counts: dict[tuple[str, ...], int] = {tuple(row[:-1]): row[-1] for row in before}
    for *name, count in rows:
        key = tuple(name)
        if key not in counts and len(counts) >= MOST_SERIES - 1:
            key = (OTHER,) * len(key)
        counts[key] = counts.get(key, 0) + count
    return [(*key, count) for key, count in counts.items()]


class SeriesTotals:
    """The rows of one kind of name. With *is_gauge* their numbers are values of the moment, which are not added up.

    A name that the present process drops, as it was idle or others sent more, has ended: its earlier counts are dropped too.
    A new process knows no names; those of earlier processes are shown until it has them too, or until they were idle for long.
    """

    def __init__(self, *, is_gauge: bool = False) -> None:
        self._is_gauge = is_gauge
        self._before: dict[Labels, list[int]] = {}  # of processes that have ended
        self._rows: dict[Labels, list[int]] = {}
        self._ended_at = 0.0  # seconds: when the last process did

    def note(self, rows: Iterable[Row]) -> None:
        """Note what the present process has counted."""
        found = dict(rows)
        for labels in self._rows.keys() - found.keys():
            self._before.pop(labels, None)
        self._rows = found
        if self._is_gauge and found:
            self._before = {}

    def end(self, now: float) -> None:
        """Note that the process has ended: the next one counts from 0."""
        if self._rows:
            self._before |= {labels: self._sum(labels, numbers) for labels, numbers in self._rows.items()}
            self._rows = {}
        self._ended_at = now

    def rows(self, most: int, idle: float, now: float) -> list[Row]:
        """Return at most *most* sums. Names that only earlier processes had are left out after *idle* seconds."""
        if now - self._ended_at >= idle:
            self._before = {
                labels: numbers for labels, numbers in self._before.items() if labels in self._rows or OTHER in labels
            }
        present = [(labels, self._sum(labels, numbers)) for labels, numbers in self._rows.items()]
        rest = [(labels, numbers) for labels, numbers in self._before.items() if labels not in self._rows]
        rest.sort(key=lambda row: OTHER not in row[0])
        return present + rest[: max(0, most - len(present))]

    def _sum(self, labels: Labels, numbers: list[int]) -> list[int]:
        """Return a name's numbers plus those of earlier processes; a gauge's numbers as they are."""
        before = self._before.get(labels)
        if self._is_gauge or before is None or len(before) != len(numbers):
            return numbers
        return [a + b for a, b in zip(before, numbers, strict=True)]
