"""How the histograms of /metrics are counted and shown: classic buckets for every scraper, native histograms for Prometheus.

Workers count in buckets whose bounds are powers of 2, or of 2 ** (1/4): those of Prometheus' native histograms of the schemas
0 and 2 (https://prometheus.io/docs/specs/native_histograms/). So a native histogram has every counted bucket: for
durations, neighbouring bounds are 19 % apart. The classic one has fewer buckets with some of the same bounds, so that quantiles
of both are in the same classic bucket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from prometheus_client.core import HistogramMetricFamily

SCHEMAS = {1: 0, 4: 2}  # buckets for each power of 2 -> schema


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of counts: *per_octave* for each power of 2; the first ends at 2 ** *lowest*, the last has no upper bound."""

    lowest: int
    per_octave: int
    count: int

    def bound(self, bucket: int) -> float:
        """Return the upper bound of a bucket, which belongs to it; infinity for the last one."""
        return float("inf") if bucket >= self.count - 1 else 2.0 ** (self.lowest + bucket / self.per_octave)

    def classic(self, lowest: int, highest: int, step: int) -> tuple[int, ...]:
        """Return the buckets with bounds from 2 ** *lowest* to 2 ** *highest*, *step* powers of 2 apart, and the last one."""
        shown = range(lowest, highest + 1, step)
        return (*((exponent - self.lowest) * self.per_octave for exponent in shown), self.count - 1)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a histogram is counted and shown: all buckets, the classic ones, and how many parts of a unit its sum counts."""

    buckets: Buckets
    shown: tuple[int, ...]
    parts: float = 1.0


@dataclass(frozen=True, slots=True)
class Counted:
    """One series of a histogram."""

    labels: tuple[str, ...]
    counts: Sequence[int]  # by bucket
    total: float  # sum of all values


class Histogram(HistogramMetricFamily):
    """A family of classic histograms that also holds the data of native ones."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str], shape: Shape) -> None:
        super().__init__(name, documentation, labels=labels)
        self.label_names = tuple(labels)
        self.shape = shape
        self.counted: list[Counted] = []

    def add(self, labels: tuple[str, ...], counts: Sequence[int], total: float) -> None:
        """Add a series of values counted by bucket; a series without values is left out."""
        if not any(counts):
            return
        counted = Counted(labels, counts, total / self.shape.parts)
        self.counted.append(counted)
        self.add_metric(labels, self.classic(counted), sum_value=counted.total)

    def classic(self, counted: Counted) -> list[tuple[str, int]]:
        """Return (upper bound, number of values up to it) for each bucket that is shown."""
        cumulative = list(accumulate(counted.counts))
        bounds = (self.shape.buckets.bound(bucket) for bucket in self.shape.shown)
        texts = ("+Inf" if bound == float("inf") else repr(bound) for bound in bounds)
        return list(zip(texts, (cumulative[bucket] for bucket in self.shape.shown), strict=True))

    def native(self, counted: Counted) -> dict[str, Any]:
        """Return the fields of a native histogram: schema, zero_threshold, zero_count, spans as (offset, length), and deltas.

        Values up to the first bound are its zero bucket. Those above the last bound are in the bucket after it.
        """
        buckets = self.shape.buckets
        spans: list[list[int]] = []
        deltas: list[int] = []
        index = last = 0
        for bucket, count in enumerate(counted.counts):
            if bucket == 0 or not count:
                continue
            place = buckets.lowest * buckets.per_octave + bucket  # the bucket up to 2 ** (place / per_octave)
            if spans and place == index:
                spans[-1][1] += 1
            else:
                spans.append([place - index if spans else place, 1])
            index = place + 1
            deltas.append(count - last)
            last = count
        return {
            "schema": SCHEMAS[buckets.per_octave],
            "zero_threshold": buckets.bound(0),
            "zero_count": counted.counts[0],
            "spans": [(offset, length) for offset, length in spans],
            "deltas": deltas,
        }
