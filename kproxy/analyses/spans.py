"""A range of time as a person writes it: 2026-11-21T09:00:00Z/2026-11-21T09:10:00Z."""

from datetime import UTC, datetime

from kproxy.analyses.loading import ALWAYS, Span
from kproxy.errors import UsageError

MICRO = 1_000_000


def parse_span(name: str, text: str) -> Span:
    """Parse FROM/TO to microseconds. Each is RFC 3339 (UTC by default) or empty. Raises UsageError that begins with *name*."""
    begins, slash, ends = text.partition("/")
    if not slash:
        raise UsageError(
            f"{name} wants FROM/TO, for instance 2026-11-21T09:00:00Z/2026-11-21T09:10:00Z, not {text[:80]!r}"
        )
    span = _micros(name, begins, ALWAYS[0]), _micros(name, ends, ALWAYS[1])
    if span[0] >= span[1]:
        raise UsageError(f"{name}: {text[:80]} ends before it begins")
    return span


def _micros(name: str, text: str, otherwise: int) -> int:
    if not text.strip():
        return otherwise
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{name}: {text[:40]!r} is no time; write 2026-11-21T09:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * MICRO + since.microseconds
