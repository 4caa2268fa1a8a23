"""Times, durations, sizes and counts as text, and times read back; times are nanoseconds since the epoch, in UTC."""

import functools
import re
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_SECOND = 253_402_300_799  # the end of the year 9999
INSTANT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")  # RFC 3339 in UTC


def render_instant(at: int) -> str:
    """Render RFC 3339 with six digits, or nine if the nanoseconds are not whole microseconds: 2026-11-21T09:30:00.000123Z.

    A time before 1970 or after 9999, which only a damaged capture holds, is shown as the nearest of the two.
    """
    second, fraction = divmod(at, SECOND)
    micros, nanos = divmod(fraction, 1000)
    if nanos:
        return f"{render_second(second)}.{fraction:09d}Z"
    return f"{render_second(second)}.{micros:06d}Z"


class Clock:
    """Renders times of day, in UTC or in local time. A time of another date than the first one is rendered with its date.

    Args:
        local: local time, with the offset that each time has there (TZ, daylight saving).
    """

    def __init__(self, *, local: bool = False) -> None:
        self.local = local
        self.first_date = ""  # of the first time that was rendered: 2026-11-21
        self._second = _render_local_second if local else render_second
        self._latest: tuple[int | None, str] = None, ""  # the second that was rendered last, and its text

    def start(self, at: int) -> None:
        """Take the date of *at* as the first one, unless there is one."""
        if not self.first_date:
            self.first_date = self._second(at // SECOND)[:10]

    def render(self, at: int, digits: int = 6) -> str:
        """Render the time of day, 09:30:00.000123, with so many digits after the second; on another date, after that date."""
        second, fraction = divmod(at, SECOND)
        if second != self._latest[0]:
            self.start(at)
            text = self._second(second)
            self._latest = second, text[11:] if text.startswith(self.first_date) else f"{text[:10]} {text[11:]}"
        clock = self._latest[1]
        return f"{clock}.{fraction:09d}"[: len(clock) + 1 + digits] if digits else clock

    def zone(self, at: int) -> str:
        """Return the zone at a time: "UTC", or "UTC+02:00, local time"."""
        offset = _local_moment(at // SECOND).strftime("%z") if self.local else "+0000"
        return "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:5]}, local time"


@functools.lru_cache(maxsize=256)
def _render_local_second(second: int) -> str:
    return _local_moment(second).strftime("%Y-%m-%dT%H:%M:%S")


def _local_moment(second: int) -> datetime:
    return _moment(min(second, LAST_SECOND - 86_400)).astimezone()  # a later one could be in the year 10000


def _moment(second: int) -> datetime:
    return EPOCH + timedelta(seconds=min(max(second, 0), LAST_SECOND))


def render_duration(nanoseconds: int) -> str:
    """Render a duration for people, in about three digits: 85 µs, 3.10 ms, 12.50 s."""
    if nanoseconds < 999_500:
        return f"{nanoseconds // 1000} µs"
    if nanoseconds < 9_995_000:
        return f"{nanoseconds / 1e6:.2f} ms"
    if nanoseconds < 99_950_000:
        return f"{nanoseconds / 1e6:.1f} ms"
    if nanoseconds < 999_500_000:
        return f"{nanoseconds / 1e6:.0f} ms"
    return f"{nanoseconds / 1e9:.2f} s"


def render_span(seconds: float) -> str:
    """Render a span of time for people: 3.1 s, 12 min, 5 h 20 min, 3 days, 56 years."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    days = hours // 24
    return f"{days} days" if days < 730 else f"{days // 365:,} years"


def render_size(size: int) -> str:
    """Render a number of bytes for people: 873 B, 1.2 KB (1 KB is 1,000 bytes), 3.4 MB."""
    if size < 1000:
        return f"{size} B"
    if size < 999_950:
        return f"{size / 1e3:.1f} KB"
    if size < 999_950_000:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e9:.1f} GB"


def counted(number: int, one: str, many: str = "") -> str:
    """Render a number of things: 1 request, 2,000 requests."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@functools.lru_cache(maxsize=256)  # captures go forward: the same second comes again and again
def render_second(second: int) -> str:
    """Render a second since the epoch as date and time in UTC: 2026-11-21T09:30:00."""
    return _moment(second).strftime("%Y-%m-%dT%H:%M:%S")


def parse_instant(text: str) -> int:
    """Parse what render_instant writes, with up to nine digits, to nanoseconds since the epoch. Raises ValueError."""
    match = INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-11-21T09:30:00.000123Z")
    return _second_of(match[1]) * SECOND + int((match[2] or "").ljust(9, "0"))


@functools.lru_cache(maxsize=256)
def _second_of(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())
