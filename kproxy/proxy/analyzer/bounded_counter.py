"""BoundedCounter: counts by names from traffic, so many at most."""

from typing import Any

import msgspec

from kproxy.output.escaping import well_formed
from kproxy.proxy.analyzer.series import MOST_SERIES, OTHER

MOST_NAMES = (
    240_000  # bytes of JSON that the names of one counter take: all counters together fit one message (channel.py)
)


class BoundedCounter:
    """Counts by names from traffic; what comes after *most* - 1 names, or MOST_NAMES bytes of them, is counted as OTHER."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self._counts: dict[tuple[str, ...], int] = {}
        self._most = most
        self._room = MOST_NAMES

    def add(self, *name: str, n: int = 1) -> None:
        """Count *n* of a name."""
        counts = self._counts
        known = counts.get(name)
        if known is None and not self._has_room(name):
            name = (OTHER,) * len(name)
            known = counts.get(name)
        counts[name] = n + (known or 0)

    def _has_room(self, name: tuple[str, ...]) -> bool:
        """Whether another name fits; takes its room."""
        size = len(msgspec.json.encode([well_formed(part) for part in name])) + 24  # with a number
        if len(self._counts) >= self._most - 1 or size > self._room:
            return False
        self._room -= size
        return True

    def rows(self) -> list[Any]:
        """(*name, count) of each name; text that is no Unicode is escaped."""
        return [(*map(well_formed, name), count) for name, count in self._counts.items()]
