"""The numbers in a push: OpenTelemetry's MetricsData, decompressed and read within bounds."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from kproxy.filters.contract import ClientMetric
from kproxy.protocol.embedded.telemetry import read_metrics, unpack_metrics
from kproxy.protocol.records.limits import Limits

MOST_PARTS = 50_000  # values of all fields of a push
LONGEST_NAME, LONGEST_KEY = 200, 64
LONGEST_VALUE = 250  # characters: more than a topic's name has
DELTA = "AGGREGATION_TEMPORALITY_DELTA"
TIMES_COMPRESSED = 4


class Push(NamedTuple):
    """The content of a push."""

    metrics: list[ClientMetric]
    dropped: int  # data points that are no numbers, or too many


def unpack(data: bytes, compression_type: int, most_bytes: int) -> bytes:
    """Decompress a push of at most *most_bytes*. Raises TooLarge, or another DecodeError."""
    most = TIMES_COMPRESSED * most_bytes
    return unpack_metrics(data, compression_type, Limits(decompressed=most, free=most, window=1 << 23))


def read_push(plain: bytes, most_metrics: int, most_attributes: int) -> Push:
    """Read decompressed data, with at most *most_metrics* numbers of *most_attributes* attributes each. Raises DecodeError."""
    metrics: list[ClientMetric] = []
    dropped = 0
    for metric in _of_all(read_metrics(plain, MOST_PARTS), most_attributes):
        if metric is None or len(metrics) >= most_metrics:
            dropped += 1
        else:
            metrics.append(metric)
    return Push(metrics, dropped)


def _of_all(data: dict[str, Any], most_attributes: int) -> Iterator[ClientMetric | None]:
    """Yield every data point; None for one that is not shown."""
    for resource in data.get("resource_metrics", ()):
        for scope in resource.get("scope_metrics", ()):
            for metric in scope.get("metrics", ()):
                yield from _of_metric(metric, most_attributes)


def _of_metric(metric: dict[str, Any], most_attributes: int) -> Iterator[ClientMetric | None]:
    name = metric.get("name", "")[:LONGEST_NAME]
    total = metric.get("sum")
    points = (total or metric.get("gauge") or {}).get("data_points", ())
    is_counter = bool(total and total.get("is_monotonic"))
    is_delta = bool(total and total.get("aggregation_temporality") == DELTA)
    for point in points:
        value = _number(point)
        yield (
            None
            if value is None
            else ClientMetric(name, is_counter, is_delta, _attributes(point, most_attributes), value)
        )
    for kind in ("histogram", "exponential_histogram", "summary"):  # no client of Kafka sends them
        for _ in metric.get(kind, {}).get("data_points", ()):
            yield None


def _number(point: dict[str, Any]) -> float | None:
    """Return the value; None if it is no number (NaN and infinity are words here)."""
    value = point.get("as_double", point.get("as_int"))
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _attributes(point: dict[str, Any], most: int) -> tuple[tuple[str, str], ...]:
    attributes = []
    for attribute in point.get("attributes", ())[:most]:
        value = attribute.get("value", {})
        scalar = next(
            (value[kind] for kind in ("string_value", "int_value", "bool_value", "double_value") if kind in value), ""
        )
        attributes.append((attribute.get("key", "")[:LONGEST_KEY], str(scalar)[:LONGEST_VALUE]))
    return tuple(attributes)
