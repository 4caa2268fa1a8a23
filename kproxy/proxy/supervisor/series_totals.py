"""The analyzer's numbers by names (AnalyzerSeries) over all its processes: each counts from 0, what is shown must not go down.

A name that a process no longer has, as it was idle or others sent more, has ended: what earlier processes counted of it ends too.
A new process knows no names; those of the one before are shown until it has them, or until they were idle for long.
"""

from collections.abc import Iterable
from typing import TypeAlias

from kproxy.proxy.supervisor.analyzer_totals import OTHER

Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = tuple[Labels, list[int]]


class SeriesTotals:
    """The rows of one kind of name; *is_gauge*: their numbers are those of the moment, and are not added."""

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
        """The sums: at most *most*; names that the present process does not have only until they were idle for so long."""
        if now - self._ended_at >= idle:
            self._before = {
                labels: numbers for labels, numbers in self._before.items() if labels in self._rows or OTHER in labels
            }
        found = [(labels, self._sum(labels, numbers)) for labels, numbers in self._rows.items()]
        rest = [(labels, numbers) for labels, numbers in self._before.items() if labels not in self._rows]
        rest.sort(key=lambda row: OTHER not in row[0])
        return found + rest[: max(0, most - len(found))]

    def _sum(self, labels: Labels, numbers: list[int]) -> list[int]:
        before = self._before.get(labels)
        if self._is_gauge or before is None or len(before) != len(numbers):
            return numbers
        return [a + b for a, b in zip(before, numbers, strict=True)]
