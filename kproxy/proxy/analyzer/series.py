"""Series: numbers by names from traffic. The names that send most have their own numbers; all others share OTHER.

BoundedCounter is simpler: the first names have their own counts, all later ones share OTHER. In a Series, a name is

admitted    while there is room: a new name has its own numbers, from 0
shared      without room: it is counted as OTHER, and its requests of this period are also counted approximately
            (a frequent-items sketch: Misra and Gries, with the median taken off when it is full)
exchanged   at the end of a period: shared names with the most requests take the places of names that had less than half
            as many; only a few in each period, so that an attacker makes few new series
ended       once it was idle for long: its place is free
"""

from heapq import nlargest, nsmallest
from operator import add
from typing import Any, TypeAlias

import msgspec

from kproxy.output.escaping import label_of, well_formed

MOST_SERIES = 1_000  # OTHER included
IDLE = 3_600.0  # seconds
OTHER = "__other__"
PERIOD = 60.0  # seconds
LEAST = 10  # shared requests in a period without which a name gets no place
EXCHANGED = 10  # one in so many places may be exchanged in each period
CANDIDATES = 4_000

Key: TypeAlias = tuple[str | None, ...]
Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = tuple[Labels, list[int]]


def labels_of(key: Key) -> Labels:
    """Return the labels of the names in a key."""
    return tuple(map(label_of, key))


class Kept:
    """The numbers of a name that has its own; the first one is its requests."""

    __slots__ = ("began", "numbers", "seen", "used")

    def __init__(self, width: int, now: float) -> None:
        self.numbers = [0] * width
        self.began = 0  # its requests at the beginning of the period
        self.seen = 0  # its requests when it was last seen used
        self.used = now

    def is_idle(self, now: float, longest: float) -> bool:
        """Return whether it had no request for *longest* seconds."""
        if self.numbers[0] != self.seen:
            self.seen, self.used = self.numbers[0], now
        return now - self.used >= longest

    @property
    def in_period(self) -> int:
        """Its requests in this period."""
        return self.numbers[0] - self.began


class Series:
    """Lists of *width* numbers, by keys of *labels* names each."""

    def __init__(self, width: int, labels: int) -> None:
        self._width = width
        self._other_labels = (OTHER,) * labels
        self._other = [0] * width
        self._kept: dict[Labels, Kept] = {}
        self._known: dict[Key, list[int]] = {}  # the numbers in _kept by names as they come; may be emptied at any time
        self._shared: dict[Labels, int] = {}  # requests of names without a place, in this period
        self._most, self._idle = MOST_SERIES, IDLE
        self._now = self._period_began = 0.0

    def add(self, key: Key, *numbers: int) -> None:
        """Add as many *numbers* as a name has; the first one is its requests."""
        found = self._known.get(key)
        if found is None:
            found = self._find(key, numbers[0])
        found[:] = map(add, found, numbers)

    def _find(self, key: Key, requests: int) -> list[int]:
        """Return the numbers that a name counts in: its own, new ones, or those of OTHER."""
        labels = labels_of(key)
        if OTHER in labels:  # it would be confused with the row of all others
            return self._other
        kept = self._kept.get(labels)
        if kept is None:
            if len(self._kept) >= self._most - 1:
                self._share(labels, requests)
                return self._other
            kept = self._kept[labels] = Kept(self._width, self._now)
        if len(self._known) >= 2 * MOST_SERIES:  # different names may have the same label
            self._known.clear()
        self._known[key] = kept.numbers
        return kept.numbers

    def _share(self, labels: Labels, requests: int) -> None:
        shared = self._shared
        shared[labels] = shared.get(labels, 0) + requests
        if len(shared) > CANDIDATES:
            median = sorted(shared.values())[len(shared) // 2]
            self._shared = {labels: n - median for labels, n in shared.items() if n > median}

    def limit(self, most: int, idle: float) -> None:
        """Keep at most *most* series, and end those that are idle for *idle* seconds."""
        self._most, self._idle = most, idle
        self._remove(list(self._kept)[max(0, most - 1) :])

    def age(self, now: float) -> None:
        """End idle series; once a period, replace series with little traffic by names with more. *now*: monotonic seconds."""
        self._now = now
        self._remove([labels for labels, kept in self._kept.items() if kept.is_idle(now, self._idle)])
        if now - self._period_began >= PERIOD:
            self._period_began = now
            self._exchange()

    def _exchange(self) -> None:
        """Give names that sent much under OTHER the places of names that sent little."""
        most = max(1, self._most // EXCHANGED)
        free = max(0, self._most - 1 - len(self._kept))
        heavy = nlargest(most, self._shared.items(), key=lambda item: item[1])
        light = [(labels, kept.in_period) for labels, kept in self._kept.items()] if heavy else []
        leaving = iter(nsmallest(most, light, key=lambda item: item[1]))
        for labels, requests in heavy:
            if requests < LEAST:
                break
            if free:
                free -= 1
            else:
                lightest = next(leaving, None)
                if lightest is None or requests <= 2 * lightest[1]:
                    break
                self._remove([lightest[0]])
            self._kept[labels] = Kept(self._width, self._now)
        self._shared.clear()
        for kept in self._kept.values():
            kept.began = kept.numbers[0]

    def _remove(self, ended: list[Labels]) -> None:
        for labels in ended:
            del self._kept[labels]
        if ended:
            self._known.clear()

    def rows(self) -> list[Row]:
        """Return labels and numbers of each series."""
        rows: list[Row] = [(labels, list(kept.numbers)) for labels, kept in self._kept.items()]
        return [*rows, (self._other_labels, list(self._other))] if any(self._other) else rows


# Bytes of JSON that the names of one counter take: all counters together fit one message (LONGEST_LINE of messages.py).
MOST_NAMES = 240_000


class BoundedCounter:
    """Counts by names from traffic; what comes after *most* - 1 names, or MOST_NAMES bytes of them, is counted as OTHER."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self._counts: dict[tuple[str, ...], int] = {}
        self._most = most
        self._room = MOST_NAMES

    def add(self, *name: str, n: int = 1) -> None:
        """Add *n* to the count of a name."""
        counts = self._counts
        known = counts.get(name)
        if known is None and not self._has_room(name):
            name = (OTHER,) * len(name)
            known = counts.get(name)
        counts[name] = n + (known or 0)

    def _has_room(self, name: tuple[str, ...]) -> bool:
        """Return whether another name fits, and take its room."""
        size = len(msgspec.json.encode([well_formed(part) for part in name])) + 24  # with a number
        if len(self._counts) >= self._most - 1 or size > self._room:
            return False
        self._room -= size
        return True

    def rows(self) -> list[Any]:
        """Return (*name, count) of each name; text that is not valid Unicode is escaped."""
        return [(*map(well_formed, name), count) for name, count in self._counts.items()]
