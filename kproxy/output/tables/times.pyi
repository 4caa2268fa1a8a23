"""Times for Arrow: what the file formats and their readers can say, null for the rest."""

EARLIEST_US: int  # the beginning of 1900: what is before, Spark does not read
LATEST_US: int  # the end of 9999

def instant(at: int) -> int | None:
    """Nanoseconds since the epoch as microseconds; None before 1900, which only a damaged capture says."""

def record_time(at: int | None) -> int | None:
    """A record's milliseconds; None for None, for -1 (no timestamp) and for what is before 1900 or after 9999."""
