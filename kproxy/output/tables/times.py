"""Times for Arrow: what the file formats and their readers can say, null for the rest."""

FIRST_YEAR_US, LAST_YEAR_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999, as SQL's


def instant(at: int) -> int | None:
    """Nanoseconds since the epoch as microseconds; None beyond the year 9999, which only a damaged capture says."""
    us = at // 1000
    return us if FIRST_YEAR_US <= us <= LAST_YEAR_US else None


def record_time(at: int | None) -> int | None:
    """A record's milliseconds; None for -1 (no timestamp) and for what no calendar has."""
    if at is None or at == -1 or not FIRST_YEAR_US <= at * 1000 <= LAST_YEAR_US:
        return None
    return at
