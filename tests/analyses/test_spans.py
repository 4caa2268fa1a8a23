"""Ranges of time: microseconds computed by hand, and what is refused."""

import pytest

from kproxy.analyses.loading import ALWAYS
from kproxy.analyses.spans import parse_span
from kproxy.errors import UsageError


def test_both_ends_are_instants() -> None:
    assert parse_span("--before", "1970-01-01T00:00:01Z/1970-01-01T01:00:02.5+01:00") == (1_000_000, 2_500_000)
    assert parse_span("--before", "1970-01-02/1970-01-03") == (86_400_000_000, 172_800_000_000)


def test_an_end_may_be_left_out() -> None:
    assert parse_span("--after", "1970-01-01T00:00:01Z/") == (1_000_000, ALWAYS[1])
    assert parse_span("--after", "/") == ALWAYS


@pytest.mark.parametrize(
    ("text", "words"), [("now", "wants FROM/TO"), ("x/", "is no time"), ("1971-01-01/1970-01-01", "ends before")]
)
def test_what_is_no_range_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"--after.*{words}"):
        parse_span("--after", text)
