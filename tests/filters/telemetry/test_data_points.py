"""Pushes written by OpenTelemetry's own package, and what is hostile."""

import gzip

import pytest

from kproxy.errors import DecodeError
from kproxy.filters.contract import ClientMetric
from kproxy.filters.telemetry.data_points import Push, unpack
from kproxy.filters.telemetry.data_points import read_push as read_push_within
from kproxy.protocol.embedded.telemetry import TooLarge
from tests.filters.telemetry.pushes import DELTA, counter, gauge, push


def read_push(plain: bytes, most_metrics: int = 100, most_attributes: int = 8) -> Push:
    return read_push_within(plain, most_metrics, most_attributes)


def test_sums_and_gauges_with_their_attributes() -> None:
    plain = push(
        counter("a.total", 7, topic="orders"),
        counter("b.total", 3, DELTA),
        counter("c", -2, DELTA, is_monotonic=False),
        gauge("d", 0.0, node_id="1"),
    )
    assert read_push(plain) == (
        [
            ClientMetric("a.total", True, False, (("topic", "orders"),), 7.0),
            ClientMetric("b.total", True, True, (), 3.0),
            ClientMetric("c", False, True, (), -2.0),
            ClientMetric("d", False, False, (("node_id", "1"),), 0.0),
        ],
        0,
    )


def test_what_is_no_number_is_dropped() -> None:
    histogram = {"name": "h", "histogram": {"dataPoints": [{"count": "1"}, {"count": "2"}]}}
    assert read_push(push(gauge("a", "NaN"), gauge("b", "-Infinity"), gauge("c", 1.5), histogram)) == (
        [ClientMetric("c", False, False, (), 1.5)],
        4,
    )


def test_names_are_cut_and_numbers_beyond_the_cap_dropped() -> None:
    long, dropped = read_push(push(gauge("n" * 1_000, 1.0, **{"k" * 1_000: "v" * 1_000})))
    assert [(len(one.name), [tuple(map(len, pair)) for pair in one.attributes]) for one in long] == [(200, [(64, 250)])]
    found, dropped = read_push(push(*(gauge("a", 1.0) for _ in range(7 + 5))), most_metrics=7)
    assert (len(found), dropped) == (7, 5)
    (few,), dropped = read_push(push(gauge("a", 1.0, one="1", two="2", three="3")), most_attributes=2)
    assert (few.attributes, dropped) == ((("one", "1"), ("two", "2")), 0)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(4_001))
    assert len(bomb) < 100
    with pytest.raises(TooLarge):
        unpack(bomb, 1, 1_000)
    assert unpack(gzip.compress(bytes(4_000)), 1, 1_000) == bytes(4_000)


@pytest.mark.parametrize("data", [b"\x0a\x7f", b"\xff" * 50, b"\x0a\x02\x12\xff"])
def test_what_is_no_push_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_push(data)
    with pytest.raises(DecodeError):
        unpack(data, 4, 1_000)
