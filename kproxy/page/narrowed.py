"""Narrowed: when the configuration had only a part of the traffic analyzed, and which part.

How many exchanges were not analyzed is not known: nothing counts them. Those left out for lack of time are counted (left_out).
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct, field

MOST_NAMES = 5
MOST_SPANS = 20
SECOND = 1_000_000_000  # ns
EVER = 1 << 63  # ns


class Analyzed(Struct, frozen=True):
    """What is analyzed, as the configuration has it: kproxy.config.Analysis."""

    apis: list[str] = field(default_factory=list)  # empty: all
    sample: float = 1.0
    snaplen: int = 0  # 0: all


class Span(Struct, frozen=True):
    """A time during which the configuration was the same. Times in ns; EVER: it still is."""

    analyzed: Analyzed
    start: int
    end: int = EVER
    older: float = 1.0  # of the connections that began before it, the share that is analyzed

    @property
    def lacks_exchanges(self) -> bool:
        """Whether exchanges are missing."""
        return bool(self.analyzed.apis) or min(self.analyzed.sample, self.older) < 1

    @property
    def lacks_bytes(self) -> bool:
        """Whether ends of frames are missing."""
        return self.analyzed.snaplen > 0

    @property
    def is_narrow(self) -> bool:
        """Whether anything is missing."""
        return self.lacks_exchanges or self.lacks_bytes

    def sentence(self) -> str:
        """What was analyzed then."""
        since, until = (clock(at) if 0 < at < EVER else "" for at in (self.start, self.end))
        if until:
            when = f"Between {since} and {until}" if since else f"Until {until}"
            return f"{when} the configuration had only {_listed(list(self._parts()))} analyzed."
        analyzes = f"configuration analyzes only {_listed(list(self._parts()))}."
        return f"Since {since} the {analyzes}" if since else f"The {analyzes}"

    def _parts(self) -> Iterator[str]:
        analyzed = self.analyzed
        if analyzed.apis:
            others = len(analyzed.apis) - MOST_NAMES
            more = [f"{others} other API{'s' if others > 1 else ''}"] if others > 0 else []
            yield f"{_listed(analyzed.apis[:MOST_NAMES] + more)} (analysis.api_name)"
        if analyzed.sample < 1:
            yield f"{_share(analyzed.sample)} (analysis.sample)"
        elif self.older < 1:
            yield f"{_share(self.older)} that began before (analysis.sample)"
        if analyzed.snaplen:
            yield f"the first {analyzed.snaplen:,} byte{'s' if analyzed.snaplen > 1 else ''} of a frame (analysis.snaplen)"


class Narrowed:
    """The history. One thread changes it; any may ask."""

    def __init__(self) -> None:
        self._spans: tuple[Span, ...] = ()

    def use(self, analyzed: Analyzed, now: int | None = None) -> None:
        """From *now* on (ns) that is analyzed; from the beginning on, the first time."""
        at = time.time_ns() if now is None else now
        if not self._spans:
            self._spans = (Span(analyzed, 0),)
            return
        *before, last = self._spans
        if analyzed == last.analyzed:
            return
        # Whether a connection is analyzed is decided when it begins
        older = min(last.older, last.analyzed.sample)
        ended = Span(last.analyzed, last.start, at, last.older)
        self._spans = (*before, ended, Span(analyzed, at, EVER, older))[-MOST_SPANS:]

    @property
    def is_empty(self) -> bool:
        """Whether all was analyzed, always."""
        return not any(one.is_narrow for one in self._spans)

    @property
    def now(self) -> str:
        """What is analyzed now, as a sentence; "" for all."""
        return self._spans[-1].sentence() if self._spans and self._spans[-1].is_narrow else ""

    def between(self, start: int, end: int) -> list[Span]:
        """When not all was analyzed in a span of time."""
        return [one for one in self._spans if one.is_narrow and one.start <= end and one.end >= start]


def _share(share: float) -> str:
    return f"a share of {share:.4g} of the connections" if share else "none of the connections"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def clock(ns: int) -> str:
    """The time of day, of nanoseconds since the epoch."""
    return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%H:%M:%S UTC")
