"""Histograms of /metrics: classic buckets for every scraper, native histograms for Prometheus; the protobuf format for these.

Workers count in buckets whose bounds are powers of 2, or of 2 ** (1/4): those of Prometheus' native histograms of the schemas
0 and 2 (https://prometheus.io/docs/specs/native_histograms/). So a native histogram has every counted bucket: for
durations, neighbouring bounds are 19 % apart. The classic one has fewer buckets with some of the same bounds, so that quantiles
of both are in the same classic bucket.

Prometheus accepts native histograms in the protobuf format: io.prometheus.client.MetricFamily of
github.com/prometheus/client_model, each family after its size. prometheus_client writes text only (its issue 918); the few
messages that are needed are written here. Fields, by number:

    MetricFamily   1 name, 2 help, 3 type, 4 metric*
    Metric         1 label* (1 name, 2 value), 2 gauge, 3 counter, 5 untyped (each 1 value), 7 histogram
    Histogram      1 sample_count, 2 sample_sum, 3 bucket* (1 cumulative_count, 2 upper_bound); of a native one also
                   5 schema, 6 zero_threshold, 7 zero_count, 12 positive_span* (1 offset, 2 length), 13 positive_delta*
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kproxy.protocol.constants import uvarint

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


PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
COUNTER, GAUGE, UNTYPED, HISTOGRAM = 0, 1, 3, 4  # MetricType
VALUE_FIELD = {COUNTER: 3, GAUGE: 2, UNTYPED: 5}
TYPES = {"counter": COUNTER, "gauge": GAUGE, "info": GAUGE, "histogram": HISTOGRAM}
SUFFIX = {
    "counter": "_total",
    "info": "_info",
}  # of the sample, and so of the family: Prometheus has no other name for it
_double = struct.Struct("<d").pack


def prefers_protobuf(accept: str) -> bool:
    """Return whether a scraper prefers this format to all text, by the qualities in its Accept header (RFC 9110, 12.5.1)."""
    best, wanted = 0.0, -1.0
    for entry in accept.lower().split(","):
        kind, *parameters = (part.strip().replace(" ", "") for part in entry.split(";"))
        quality = next((_quality(one[2:]) for one in parameters if one.startswith("q=")), 1.0)
        is_protobuf = kind == "application/vnd.google.protobuf" and "encoding=delimited" in parameters
        if is_protobuf and "proto=io.prometheus.client.metricfamily" in parameters:
            wanted = max(wanted, quality)
        else:
            best = max(best, quality)
    return wanted > 0 and wanted >= best


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def encode_protobuf(families: Iterable[Metric]) -> bytes:
    return b"".join(_sized(_family(family)) for family in families)


def _family(family: Metric) -> bytes:
    kind = TYPES.get(family.type, UNTYPED)
    head = _text(1, family.name + SUFFIX.get(family.type, "")) + _text(2, family.documentation) + _number(3, kind)
    return head + b"".join(_field(4, metric) for metric in _metrics(family, kind))


def _metrics(family: Metric, kind: int) -> Iterator[bytes]:
    if isinstance(family, Histogram):
        for counted in family.counted:
            labels = dict(zip(family.label_names, counted.labels, strict=True))
            yield _labels(labels) + _field(7, _histogram(family, counted))
        return
    for sample in family.samples:
        yield _labels(sample.labels) + _field(VALUE_FIELD[kind], _real(1, sample.value))


def _histogram(family: Histogram, counted: Counted) -> bytes:
    parts = [_number(1, sum(counted.counts)), _real(2, counted.total)]
    for bound, height in family.classic(counted):
        parts.append(_field(3, _number(1, height) + _real(2, float(bound))))
    native = family.native(counted)
    parts += [_number(5, _zigzag(native["schema"])), _real(6, native["zero_threshold"])]
    parts.append(_number(7, native["zero_count"]))
    parts += [_field(12, _number(1, _zigzag(offset)) + _number(2, length)) for offset, length in native["spans"]]
    parts.append(_field(13, b"".join(uvarint(_zigzag(delta)) for delta in native["deltas"])))
    return b"".join(parts)


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join(_field(1, _text(1, name) + _text(2, value)) for name, value in labels.items())


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _sized(data: bytes) -> bytes:
    return uvarint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return uvarint(field << 3) + uvarint(value)


def _real(field: int, value: float) -> bytes:
    return uvarint(field << 3 | 1) + _double(value)


def _field(field: int, data: bytes) -> bytes:
    return uvarint(field << 3 | 2) + _sized(data)


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode("utf-8", "replace"))
