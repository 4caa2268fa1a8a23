"""Times that SQL can say."""

from datetime import UTC, datetime, timedelta

import pytest

from kproxy.output.tables.times import FIRST_YEAR_US, LAST_YEAR_US, instant, record_time


def test_the_years_are_pythons() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert (first - epoch).days * 86_400_000_000 == FIRST_YEAR_US
    assert (last - epoch) // timedelta(microseconds=1) == LAST_YEAR_US


@pytest.mark.parametrize(
    ("at", "us"), [(1_999, 1), (0, 0), (-1, -1), (2**63 - 1, 9_223_372_036_854_775), (-(2**63), -9_223_372_036_854_776)]
)
def test_instants(at: int, us: int) -> None:
    assert instant(at) == us


@pytest.mark.parametrize(
    ("at", "ms"), [(5, 5), (-1, None), (None, None), (2**63 - 1, None), (-(2**63), None), (-2, -2)]
)
def test_record_times(at: int | None, ms: int | None) -> None:
    assert record_time(at) == ms
