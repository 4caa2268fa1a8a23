# cython: language_level=3, cdivision=True
"""Times for Arrow: what the file formats and their readers can say, null for the rest."""

from libc.stdint cimport int64_t

cdef int64_t FIRST_US = -62_135_596_800_000_000  # the years 1 to 9999, as SQL's
cdef int64_t LAST_US = 253_402_300_799_999_999

FIRST_YEAR_US, LAST_YEAR_US = FIRST_US, LAST_US


cpdef int64_t instant(int64_t at) noexcept:
    """Nanoseconds since the epoch as microseconds: 64 bits of them do not leave the years that SQL has."""
    return at // 1000 - (1 if at % 1000 < 0 else 0)


cdef object record_instant(int64_t at):
    """A record's milliseconds; None for -1 (no timestamp) and for what no calendar has."""
    if at == -1 or not FIRST_US // 1000 <= at <= LAST_US // 1000:
        return None
    return at


def record_time(at):
    """A record's milliseconds; None for None, for -1 (no timestamp) and for what no calendar has."""
    return None if at is None else record_instant(at)
