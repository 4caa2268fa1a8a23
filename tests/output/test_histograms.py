"""Buckets and native histograms, against the formulas of Prometheus' specification of native histograms."""

import random
from bisect import bisect_left
from itertools import accumulate

import pytest

from kproxy.output.histograms import Buckets, Histogram, Shape
from kproxy.output.metrics import DURATIONS, SHAPES, SIZES
from kproxy.proxy.tap import counters

BUCKETS = Buckets(-3, 4, 14)  # 1/8 to 1.19, and all the rest


def native_buckets(native: dict[str, object]) -> dict[int, int]:
    """Index -> count, as the specification reads spans and deltas."""
    found, index, count = {}, 0, 0
    deltas = iter(native["deltas"])  # type: ignore[call-overload]
    for offset, length in native["spans"]:  # type: ignore[attr-defined]
        index += offset
        for _ in range(length):
            count += next(deltas)
            found[index] = count
            index += 1
    assert next(deltas, None) is None
    return found


def test_the_buckets_are_those_that_workers_count_in() -> None:
    assert (DURATIONS.count, DURATIONS.lowest, SIZES.count) == (
        counters.DURATION_BUCKETS,
        counters.LOWEST_DURATION,
        counters.SIZE_BUCKETS,
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_classic_bounds_are_bounds_that_are_counted(shape: Shape) -> None:
    bounds = [shape.buckets.bound(bucket) for bucket in range(shape.buckets.count)]
    assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
    shown = [bounds[bucket] for bucket in shape.shown]
    assert shown == sorted(set(shown)) and shown[-1] == float("inf")
    assert len(shown) <= 24  # lines of a scrape for each series


@pytest.mark.parametrize(("buckets", "schema"), [(DURATIONS, 2), (SIZES, 0), (BUCKETS, 2)])
def test_a_native_histogram_has_every_value_in_the_bucket_of_its_schema(buckets: Buckets, schema: int) -> None:
    rng = random.Random(3)
    bounds = [buckets.bound(bucket) for bucket in range(buckets.count)]
    values = [2 ** rng.uniform(buckets.lowest - 2, buckets.lowest + 10) for _ in range(2_000)]
    counts = [0] * buckets.count
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    family = Histogram("h", "A test.", ("api",), Shape(buckets, tuple(range(buckets.count))))
    family.add(("x",), counts, sum(values))
    native = family.native(family.counted[0])
    assert native["schema"] == schema and native["zero_threshold"] == 2.0**buckets.lowest
    base = 2 ** (2**-schema)
    expected: dict[int, int] = {}
    for value in values:
        if value > native["zero_threshold"]:
            index = next(i for i in range(-200, 200) if base ** (i - 1) < value <= base**i)
            index = min(index, buckets.lowest * buckets.per_octave + buckets.count - 1)  # the rest
            expected[index] = expected.get(index, 0) + 1
    assert native_buckets(native) == expected
    assert native["zero_count"] + sum(expected.values()) == len(values)
    heights = [height for _, height in family.classic(family.counted[0])]
    assert heights == list(accumulate(counts)) == [sum(value <= bound for value in values) for bound in bounds]


def test_a_series_without_values_is_left_out() -> None:
    family = Histogram("h", "A test.", ("api",), SHAPES["kproxy_phase_seconds"])
    family.add(("x",), [0] * DURATIONS.count, 0)
    assert family.samples == [] and family.counted == []
