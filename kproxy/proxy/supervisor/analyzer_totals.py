"""The analyzer's counts over all its processes: each counts from 0, and what /metrics shows must not go down.

What stands for a moment (the lag, open connections, waiting bytes) is that of the process that is there. Names that come from
traffic are bounded as in one process; those of another process beyond that are counted as OTHER.
AnalyzerSeries: series_totals.py.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from kproxy.proxy.messages import AnalyzerCounts

MOST_SERIES, OTHER = 1_000, "__other__"  # as in analyzer/series.py, whose imports the supervisor can do without
_OF_THE_MOMENT = ("at", "connections", "waiting_bytes", "most_lag_ns")


class AnalyzerTotals:
    """Adds the last counts of processes that have ended to those of the present one."""

    def __init__(self) -> None:
        self._before = AnalyzerCounts()
        self._counts: AnalyzerCounts | None = None
        self._total: AnalyzerCounts | None = None  # None: to be added up again

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
        """The sum; None before there are any counts."""
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
    """Rows of names and a count."""
    found: dict[tuple[str, ...], int] = {tuple(row[:-1]): row[-1] for row in before}
    for *name, count in rows:
        key = tuple(name)
        if key not in found and len(found) >= MOST_SERIES - 1:
            key = (OTHER,) * len(key)
        found[key] = found.get(key, 0) + count
    return [(*key, count) for key, count in found.items()]
