"""Times, durations and sizes as text; expected values from GNU date and by hand."""

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.text.exchange_words import clock_words
from kproxy.output.times import Clock, _render_local_second, parse_instant, render_duration, render_instant, render_size


def test_instants_are_rfc_3339_in_utc() -> None:
    # date -u -d @1700000000.000123 +%FT%T.%NZ
    assert render_instant(1_700_000_000_000_123_000) == "2023-11-14T22:13:20.000123Z"
    assert render_instant(1_700_000_000_000_123_456) == "2023-11-14T22:13:20.000123456Z"
    assert render_instant(0) == "1970-01-01T00:00:00.000000Z"
    assert clock_words(1_700_000_000_000_123_456) == "22:13:20.000123"


@given(st.integers(0, 4_000_000_000_000_000))
def test_instants_read_back_as_what_they_were(micros: int) -> None:
    parsed = datetime.fromisoformat(render_instant(micros * 1000))
    assert (parsed - datetime.fromisoformat("1970-01-01T00:00:00Z")).total_seconds() == pytest.approx(micros / 1e6)


def test_instants_are_read_with_any_number_of_digits() -> None:
    # date -u -d 2023-11-14T22:13:20Z +%s
    assert parse_instant("2023-11-14T22:13:20.000123456Z") == 1_700_000_000_000_123_456
    assert parse_instant("2023-11-14T22:13:20.000123Z") == 1_700_000_000_000_123_000
    assert parse_instant("2023-11-14T22:13:20.5Z") == 1_700_000_000_500_000_000
    assert parse_instant("2023-11-14T22:13:20Z") == 1_700_000_000_000_000_000


@given(st.integers(0, 253_402_300_799_999_999_999))
def test_instants_are_read_back_to_the_nanosecond(at: int) -> None:
    assert parse_instant(render_instant(at)) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2023-11-14",
        "2023-13-14T22:13:20Z",
        "2023-11-14T22:13:20+01:00",
        "2023-11-14T22:13:20.Z",
        "٢023-11-14T22:13:20Z",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


def test_times_no_clock_has_are_shown_as_the_nearest() -> None:
    assert render_instant(2**63 * 1000).startswith("9999-12-31T23:59:59")
    assert render_instant(-5).startswith("1970-01-01T00:00:00")


def test_durations_have_about_three_digits() -> None:
    shown = {
        85_400: "85 µs",
        3_100_000: "3.10 ms",
        38_520_000: "38.5 ms",
        515_000_000: "515 ms",
        12_500_000_000: "12.50 s",
    }
    assert {ns: render_duration(ns) for ns in shown} == shown


def test_sizes_are_in_bytes_and_thousands_of_them() -> None:
    shown = {0: "0 B", 999: "999 B", 1200: "1.2 KB", 999_949: "999.9 KB", 1_500_000: "1.5 MB", 2_000_000_000: "2.0 GB"}
    assert {size: render_size(size) for size in shown} == shown


NEW_YEAR = 1_735_689_600_000_000_000  # date -u -d 2025-01-01T00:00:00Z +%s


def test_a_clock_shows_the_date_of_other_days_only() -> None:
    clock = Clock()
    assert clock.render(NEW_YEAR - 1_000) == "23:59:59.999999"
    assert clock.render(NEW_YEAR + 1_500_000, 3) == "2025-01-01 00:00:00.001"
    assert clock.render(NEW_YEAR - 1, 0) == "23:59:59"
    assert (clock.first_date, clock.zone(NEW_YEAR)) == ("2024-12-31", "UTC")


@pytest.mark.parametrize(
    ("zone", "at", "expected", "name"),
    [  # TZ=... date -d @1735689600
        ("Asia/Kolkata", NEW_YEAR, "05:30:00.000000", "UTC+05:30, local time"),
        ("America/New_York", NEW_YEAR, "19:00:00.000000", "UTC-05:00, local time"),
        ("America/New_York", NEW_YEAR + 181 * 86_400_000_000_000, "20:00:00.000000", "UTC-04:00, local time"),  # summer
        ("UTC", NEW_YEAR, "00:00:00.000000", "UTC"),
    ],
)
def test_a_clock_of_local_time(monkeypatch: pytest.MonkeyPatch, zone: str, at: int, expected: str, name: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    _render_local_second.cache_clear()
    try:
        clock = Clock(local=True)
        assert (clock.render(at), clock.zone(at)) == (expected, name)
        assert clock.render(1 << 80).startswith("9999-12-3")  # of a damaged capture
    finally:
        monkeypatch.undo()
        time.tzset()
        _render_local_second.cache_clear()
