"""Times that SQL can say."""

from datetime import UTC, datetime, timedelta

import pytest

from kproxy.output.tables.times import EARLIEST_US, LATEST_US, instant, record_time


def test_the_years_are_pythons() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    first, last = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert (first - epoch).days * 86_400_000_000 == EARLIEST_US
    assert (last - epoch) // timedelta(microseconds=1) == LATEST_US


@pytest.mark.parametrize(
    ("at", "us"), [(1_999, 1), (0, 0), (-1, -1), (2**63 - 1, 9_223_372_036_854_775), (-(2**63), None)]
)
def test_instants(at: int, us: int | None) -> None:
    assert instant(at) == us


@pytest.mark.parametrize(
    ("at", "ms"),
    [
        (5, 5),
        (-1, None),
        (None, None),
        (2**63 - 1, None),
        (-(2**63), None),
        (-2, -2),
        (-2_208_988_800_000, -2_208_988_800_000),
        (-2_208_988_800_001, None),
        (-62_135_596_800_000, None),
    ],
)
def test_record_times(at: int | None, ms: int | None) -> None:
    assert record_time(at) == ms
