"""Times for Arrow: what the file formats and their readers can say, null for the rest."""

FIRST_YEAR_US: int  # the years 1 to 9999, as SQL's
LAST_YEAR_US: int

def instant(at: int) -> int:
    """Nanoseconds since the epoch as microseconds: 64 bits of them do not leave the years that SQL has."""

def record_time(at: int | None) -> int | None:
    """A record's milliseconds; None for None, for -1 (no timestamp) and for what no calendar has."""
