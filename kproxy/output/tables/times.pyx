# cython: language_level=3, cdivision=True
"""Times for Arrow: what the file formats and their readers can say, null for the rest."""

from libc.stdint cimport int64_t

# From 1900 on calendars agree: one earlier time in a column, and Spark refuses to read the column (it asks which calendar is
# meant: SparkUpgradeException, spark.sql.parquet.datetimeRebaseModeInRead). The last year that SQL has is 9999.
cdef int64_t FIRST_US = -2_208_988_800_000_000
cdef int64_t LAST_US = 253_402_300_799_999_999

EARLIEST_US, LATEST_US = FIRST_US, LAST_US


cpdef object instant(int64_t at):
    """Nanoseconds since the epoch as microseconds; None before 1900, which only a damaged capture says."""
    cdef int64_t us = at // 1000 - (1 if at % 1000 < 0 else 0)
    return us if us >= FIRST_US else None


cdef object record_instant(int64_t at):
    """A record's milliseconds; None for -1 (no timestamp) and for what is before 1900 or after 9999."""
    if at == -1 or not FIRST_US // 1000 <= at <= LAST_US // 1000:
        return None
    return at


def record_time(at):
    """A record's milliseconds; None for None, for -1 (no timestamp) and for what is before 1900 or after 9999."""
    return None if at is None else record_instant(at)
