"""Version ranges as Kafka's schemas write them: ``3``, ``0-12``, ``9+``, ``none``, and lists of these."""

import functools
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

OPEN = 32767  # versions are int16; "9+" ends here


class Versions(Struct, frozen=True):
    """A set of versions, as closed ranges in ascending order. ``v in versions``, ``str(versions)``, ``list(versions)``."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    @functools.lru_cache(4_096)
    def parse(cls, text: str) -> "Versions":
        """Read ``0-3,5``, ``9+``, ``4`` or ``none``. Raises ValueError for anything else."""
        if text == "none":
            return cls()
        ranges = tuple(_parse_range(part) for part in text.split(","))
        if any(low <= before for (_, before), (low, _) in pairwise(ranges)):
            raise ValueError(f"not ascending version ranges: {text!r}")
        return cls(ranges)

    @classmethod
    def union(cls, parts: Iterable["Versions"]) -> "Versions":
        merged: list[tuple[int, int]] = []
        for low, high in sorted(pair for part in parts for pair in part.ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def __contains__(self, version: int) -> bool:
        for low, high in self.ranges:  # noqa: SIM110 - any() takes three times as long, at each field of JSON that is read
            if low <= version <= high:
                return True
        return False

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[int]:
        """Yield every version, ascending. Only sensible for closed ranges."""
        for low, high in self.ranges:
            yield from range(low, high + 1)

    @property
    def lowest(self) -> int:
        """The least version; -1 if there is none."""
        return self.ranges[0][0] if self.ranges else -1

    @property
    def highest(self) -> int:
        """The greatest version (OPEN for ``9+``); -1 if there is none."""
        return self.ranges[-1][1] if self.ranges else -1

    def intersect(self, other: "Versions") -> "Versions":
        both = [(max(a, c), min(b, d)) for a, b in self.ranges for c, d in other.ranges]
        return Versions(tuple(sorted((low, high) for low, high in both if low <= high)))

    def __str__(self) -> str:
        return ",".join(map(_render_range, self.ranges)) or "none"


def _parse_range(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if text.endswith("+"):
        low, dash, high = text[:-1], "-", str(OPEN)
    if not (low + high).isdecimal():
        raise ValueError(f"not a version range: {text!r}")
    pair = int(low), int(high if dash else low)
    if not 0 <= pair[0] <= pair[1] <= OPEN:
        raise ValueError(f"not a version range: {text!r}")
    return pair


def _render_range(pair: tuple[int, int]) -> str:
    low, high = pair
    if high == OPEN:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"
