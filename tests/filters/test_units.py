"""Sizes and times with units, against the meaning that IEC 80000-13 and the SI give their prefixes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters.units import parse_quantity, quoted, render_quantity, unit_pattern


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10", "seconds", 10),
        ("0.5", "seconds", 0.5),
        ("500ms", "seconds", 0.5),
        ("10 s", "seconds", 10),
        ("5m", "seconds", 300),
        ("1h", "seconds", 3600),
        ("1d", "seconds", 86_400),
        ("4096", "bytes", 4096),
        ("64KiB", "bytes", 65_536),
        ("1.5 MiB", "bytes", 1_572_864),
        ("1GiB", "bytes", 1_073_741_824),
        ("10MB", "bytes", 10_000_000),
    ],
)
def test_quantities(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value
    assert re.search(unit_pattern(unit), text), "an editor with the schema would call it wrong"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("10 minutes", "seconds"),
        ("-1s", "seconds"),
        ("1e3", "seconds"),
        ("inf", "seconds"),
        ("nan", "bytes"),
        ("64kib", "bytes"),
        ("10s", "bytes"),
        ("0.3", "bytes"),
        ("", "bytes"),
        ("٣s", "seconds"),
        ("9" * 20, "bytes"),
    ],
)
def test_texts_that_are_no_quantity(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"number of"):
        parse_quantity(text, unit)


@given(st.text(max_size=200))
def test_a_quoted_text_is_one_short_line(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert len(shown) <= 80


@pytest.mark.parametrize("unit", ["seconds", "bytes"])
@pytest.mark.parametrize("value", [1, 30, 60, 90, 3_600, 1_000, 1_024, 100 << 20, 1 << 30, 86_400])
def test_a_rendered_quantity_is_read_as_the_same(value: int, unit: str) -> None:
    assert parse_quantity(render_quantity(value, unit), unit) == value


def test_quantities_are_rendered_as_people_write_them() -> None:
    written = [render_quantity(value, "seconds") for value in (0.0005, 0.5, 10.0, 90.0, 3_600.0)]
    assert written == ["0.0005", "500ms", "10s", "90s", "1h"]
    assert [render_quantity(value, "bytes") for value in (100, 65_536, 100 << 20)] == ["100B", "64KiB", "100MiB"]
