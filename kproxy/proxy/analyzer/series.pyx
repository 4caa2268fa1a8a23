# cython: language_level=3, auto_pickle=False
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
from typing import Any, TypeAlias

from libc.stdint cimport int64_t

import msgspec

from kproxy.output.escaping import label_of, well_formed

MOST_SERIES: int = 1_000  # OTHER included
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


cdef Kept new_kept(double now):
    cdef Kept kept = Kept.__new__(Kept)
    kept.used = now
    return kept


cdef class Kept:
    """The numbers of a name that has its own; the first one is its requests."""

    cdef bint is_idle(self, double now, double longest) noexcept:
        """Return whether it had no request for *longest* seconds."""
        if self.numbers[0] != self.seen:
            self.seen, self.used = self.numbers[0], now
        return now - self.used >= longest

    cdef list row(self, int width):
        return [self.numbers[at] for at in range(width)]

    @property
    def in_period(self) -> int:
        """Its requests in this period."""
        return self.numbers[0] - self.began


cdef class Series:
    """*width* numbers, at most MOST_NUMBERS, by keys of *labels* names each."""

    def __init__(self, int width, int labels):
        self._width = width
        self._other_labels = (OTHER,) * labels
        self._other = new_kept(0)
        self._kept = {}
        self._known = {}
        self._shared = {}
        self._most, self._idle = MOST_SERIES, IDLE

    def add(self, tuple key not None: Key, *numbers: int) -> None:
        """Add as many *numbers* as a name has; the first one is its requests."""
        cdef Kept kept = self.of(key, numbers[0])
        for at in range(self._width):
            kept.numbers[at] += numbers[at]

    cdef Kept of(self, tuple key, int64_t requests):
        """Return what a name's numbers are to be added to, once its *requests* are known."""
        found = self._known.get(key)
        return self._find(key, requests) if found is None else found

    cdef Kept _find(self, tuple key, int64_t requests):
        """Return what a name counts in: its own numbers, new ones, or those of OTHER."""
        labels = labels_of(key)
        if OTHER in labels:  # it would be confused with the row of all others
            return self._other
        kept = self._kept.get(labels)
        if kept is None:
            if len(self._kept) >= self._most - 1:
                self._share(labels, requests)
                return self._other
            kept = self._kept[labels] = new_kept(self._now)
        if len(self._known) >= 2 * MOST_SERIES:  # different names may have the same label
            self._known.clear()
        self._known[key] = kept
        return kept

    cdef int _share(self, tuple labels, int64_t requests) except -1:
        shared = self._shared
        shared[labels] = shared.get(labels, 0) + requests
        if len(shared) > CANDIDATES:
            median = sorted(shared.values())[len(shared) // 2]
            self._shared = {labels: n - median for labels, n in shared.items() if n > median}
        return 0

    def limit(self, int64_t most, double idle) -> None:
        """Keep at most *most* series, and end those that are idle for *idle* seconds."""
        self._most, self._idle = most, idle
        self._remove(list(self._kept)[max(0, most - 1) :])

    def age(self, double now) -> None:
        """End idle series; once a period, replace series with little traffic by names with more. *now*: monotonic seconds."""
        self._now = now
        self._remove([labels for labels, kept in self._kept.items() if (<Kept>kept).is_idle(now, self._idle)])
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
            self._kept[labels] = new_kept(self._now)
        self._shared.clear()
        for kept in self._kept.values():
            (<Kept>kept).began = (<Kept>kept).numbers[0]

    def _remove(self, ended: list[Labels]) -> None:
        for labels in ended:
            del self._kept[labels]
        if ended:
            self._known.clear()

    def rows(self) -> list[Row]:
        """Return labels and numbers of each series."""
        rows = [(labels, (<Kept>kept).row(self._width)) for labels, kept in self._kept.items()]
        others = self._other.row(self._width)
        return [*rows, (self._other_labels, others)] if any(others) else rows


# Bytes of JSON that the names of one counter take: all counters together fit one message (LONGEST_LINE of messages.py).
MOST_NAMES = 240_000


cdef class BoundedCounter:
    """Counts by names from traffic; what comes after *most* - 1 names, or MOST_NAMES bytes of them, is counted as OTHER."""

    cdef dict _counts
    cdef int64_t _most
    cdef int64_t _room

    def __init__(self, int64_t most=1_000):
        self._counts = {}
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
