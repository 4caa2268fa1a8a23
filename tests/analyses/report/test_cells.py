"""Cells: each type as text, nothing that a terminal would obey."""

from datetime import UTC, date, datetime

import pytest

from kproxy.analyses.report.cells import cell, is_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1234567"),
        (0.1, "0.1"),
        (b"\x01\xff", "0x01ff"),
        (datetime(2026, 11, 22, 1, 2, 3, 4567, tzinfo=UTC), "2026-11-22 01:02:03.004"),
        (date(2026, 1, 2), "2026-01-02"),
        ({"a": 1, "b": None}, "a 1, b "),
        (["x", 2], "x, 2"),
        ("a\x1b[0m\u202e", "a\\x1b[0m\\u202e"),
    ],
)
def test_a_value_as_text(value: object, text: str) -> None:
    assert cell(value) == text


def test_numbers_stand_right() -> None:
    assert [is_number(value) for value in (1, 1.5, True, "1", None)] == [True, True, False, False, False]
