"""Which exchanges a store lacks, and when: left out for lack of time, never seen, removed to make room, not analyzed.

LeftOut counts exchanges that were left out, exactly: by the second, and for long times by longer slots, so that there are at most
MOST_SLOTS. Narrowed has the times when the configuration limited the analysis; nothing counts what was not analyzed then.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

SECOND = 1_000_000_000  # ns
MOST_SLOTS = 3_600
MOST_UNSEEN = 100
PERCENT_ABOVE = 0.5  # larger shares are written in percent, smaller ones as "1 in n"
ADVICE = (
    "Traffic comes first. For all of it give kproxy more CPU, or let it analyze less: analysis.api_name names the APIs,"
    " analysis.snaplen the bytes of each frame."
)
OF_NARROW = "Counts, sums and rows are of that alone."
MOST_NAMES = 5
MOST_SPANS = 20
EVER = 1 << 63  # ns
MOST_SAID = 3  # sentences on configurations, the latest


class Missing(Struct, frozen=True):
    """The exchanges that are missing in a span of time. Times in ns."""

    start: int
    end: int
    exchanges: int  # how many passed in this time, as far as they were counted
    here: int  # how many of them are here
    unseen: list[tuple[int, int]]  # when nothing was counted


class LeftOut:
    """Exchanges left out over time. One thread adds; any thread may read."""

    def __init__(self) -> None:
        # Width in ns; slot -> exchanges, and how many of them were left out. Replaced as a whole when the width changes
        self._slots: tuple[int, dict[int, tuple[int, int]]] = SECOND, {}
        self._unseen: tuple[tuple[int, int], ...] = ()
        self._newest = 0  # ns
        self.is_empty = True  # whether nothing was ever left out

    def add(self, at: int, exchanges: int, left_out: int) -> None:
        """Count exchanges that were complete at about that time, and how many of them were left out."""
        self.is_empty = self.is_empty and not left_out
        self._newest = max(self._newest, at)
        width, slots = self._slots
        before = slots.get(at // width, (0, 0))
        slots[at // width] = before[0] + exchanges, before[1] + left_out
        if len(slots) > MOST_SLOTS:
            wider: dict[int, tuple[int, int]] = {}
            for slot, (some, left) in slots.items():
                sums = wider.get(slot // 2, (0, 0))
                wider[slot // 2] = sums[0] + some, sums[1] + left
            self._slots = 2 * width, wider

    def add_unseen(self, start: int, end: int) -> None:
        """Note a span of time in which nothing was counted."""
        self.is_empty = False
        spans = [*self._unseen, (start, max(start, end))]
        if len(spans) > MOST_UNSEEN:
            spans[:2] = [(spans[0][0], spans[1][1])]
        self._unseen = tuple(spans)

    def between(self, start: int, end: int) -> Missing | None:
        """Return what is missing in a span; None if nothing is."""
        unseen = [(low, high) for low, high in self._unseen if low <= end and high >= start]
        width, slots = self._slots
        within = {
            slot: counted for slot, counted in list(slots.items()) if slot * width <= end and (slot + 1) * width > start
        }
        lacking = [slot for slot, (_, left) in within.items() if left]
        if not lacking:
            return Missing(unseen[0][0], unseen[-1][1], 0, 0, unseen) if unseen else None
        low, high = min(lacking), max(lacking)
        counts = [counted for slot, counted in within.items() if low <= slot <= high]
        exchanges, left = (sum(counted[at] for counted in counts) for at in (0, 1))
        return Missing(low * width, (high + 1) * width, exchanges, exchanges - left, unseen)

    def by_bucket(self, start: int, width: int, buckets: int) -> list[int]:
        """Return how many were left out in each bucket of time, spreading those of a slot evenly over it."""
        numbers = [0] * buckets
        slot_width, slots = self._slots
        for slot, (_, left) in list(slots.items()):
            if left:
                at = slot * slot_width
                length = min(slot_width, self._newest + 1 - at)  # nothing came after the newest
                for bucket, number in _spread(at, length, left, start, width, buckets):
                    numbers[bucket] += number
        return numbers


def _spread(at: int, length: int, number: int, start: int, width: int, buckets: int) -> Iterator[tuple[int, int]]:
    """Yield the buckets that a slot overlaps, each with its part of the slot's count; the parts add up to the count."""

    def until(time: int) -> int:
        return number * min(max(time - at, 0), length) // length

    for bucket in range(max((at - start) // width, 0), min((at + length - 1 - start) // width + 1, buckets)):
        low = start + bucket * width
        yield bucket, until(low + width) - until(low)


class Analyzed(Struct, frozen=True):
    """What the configuration lets the analyzer read (kproxy.config.Analysis)."""

    apis: list[str] = field(default_factory=list)  # empty: all
    sample: float = 1.0
    snaplen: int = 0  # 0: all


class Span(Struct, frozen=True):
    """A time during which the configuration was the same. Times in ns; EVER: it still is."""

    analyzed: Analyzed
    start: int
    end: int = EVER
    older: float = 1.0  # share of the connections that began earlier and are analyzed

    @property
    def lacks_exchanges(self) -> bool:
        return bool(self.analyzed.apis) or min(self.analyzed.sample, self.older) < 1

    @property
    def lacks_bytes(self) -> bool:
        """Whether ends of frames are missing."""
        return self.analyzed.snaplen > 0

    @property
    def is_narrow(self) -> bool:
        return self.lacks_exchanges or self.lacks_bytes

    def sentence(self) -> str:
        """Say in a sentence what was analyzed then."""
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
    """What the configuration had analyzed over time. One thread changes it; any thread may read."""

    def __init__(self) -> None:
        self._spans: tuple[Span, ...] = ()

    def use(self, analyzed: Analyzed, now: int | None = None) -> None:
        """Note that *analyzed* is in force from *now* (ns) on; the first one, from the beginning on."""
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
        """Whether everything was analyzed at all times."""
        return not any(one.is_narrow for one in self._spans)

    @property
    def now(self) -> str:
        """A sentence on what is analyzed now; "" if everything is."""
        return self._spans[-1].sentence() if self._spans and self._spans[-1].is_narrow else ""

    def between(self, start: int, end: int) -> list[Span]:
        """Return the times within a span when not everything was analyzed."""
        return [one for one in self._spans if one.is_narrow and one.start <= end and one.end >= start]


def _share(share: float) -> str:
    return f"a share of {share:.4g} of the connections" if share else "none of the connections"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def clock(ns: int) -> str:
    """Return the time of day in UTC of a time in nanoseconds since the epoch."""
    return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%H:%M:%S UTC")


def shown_gaps(
    left_out: LeftOut,
    narrowed: Narrowed,
    made_room: int,
    times: tuple[int | None, int | None],
    start: int | None,
    end: int | None,
) -> dict[str, Any] | None:
    """Return what an answer of the page says about exchanges that are missing in a span of time; None where none are.

    Args:
        left_out: exchanges that did not come here.
        narrowed: what the configuration has analyzed.
        made_room: exchanges that were removed, from the oldest on.
        times: of the first and the last exchange that is here, in ns; None where there is none.
        start, end: of the span, in ns; None: from the first on, until now.

    ``said`` and ``advice`` are for people; ``exchanges`` and ``here`` count those between ``fromNs`` and ``toNs``; ``unseen`` are
    spans about which nothing is known; ``sampled``: whether exchanges are missing between those that are here; ``cut``: whether
    the configuration leaves out ends of frames.
    """
    first, last = times
    low = (first or 0) if start is None else max(start, first or 0)
    narrow = narrowed.between(low, EVER if end is None else end)
    missing = None if first is None or last is None else left_out.between(low, last if end is None else end)
    made_room = made_room if first is not None and (start is None or start < first) else 0
    if missing is None and not made_room and not narrow:
        return None
    sentences = [] if missing is None else _sentences(missing)
    if made_room and first is not None:
        sentences.append(f"{made_room:,} exchanges before {clock(first)} were removed to make room for later ones.")
    sentences += [span.sentence() for span in narrow[-MOST_SAID:]]
    begins = first or 0
    return {
        "said": " ".join(sentences),
        "advice": ADVICE if missing is not None else OF_NARROW if narrow else "",
        "sampled": missing is not None or any(span.lacks_exchanges for span in narrow),
        "cut": any(span.lacks_bytes for span in narrow),
        "fromNs": str(begins if missing is None else missing.start),
        "toNs": str(begins if missing is None else missing.end),
        "exchanges": 0 if missing is None else missing.exchanges,
        "here": 0 if missing is None else missing.here,
        "unseen": [] if missing is None else [{"fromNs": str(a), "toNs": str(b)} for a, b in missing.unseen],
    }


def _sentences(missing: Missing) -> list[str]:
    sentences = []
    if missing.exchanges:
        sentences.append(
            f"Of the {missing.exchanges:,} exchanges between {clock(missing.start)} and {clock(missing.end)}"
            f" {missing.here:,} are here{_share_here(missing.here / missing.exchanges)}: counts and sums are of those."
        )
    if missing.unseen:
        (start, end), others = missing.unseen[0], len(missing.unseen) - 1
        more = f", nor at {others} other time{'s' if others > 1 else ''}" if others else ""
        sentences.append(
            f"What passed between {clock(start)} and {clock(end)} was not seen, as kproxy's analyzer began anew{more}."
        )
    return sentences


def _share_here(share: float) -> str:
    if share == 0:
        return ""
    return f" ({share:.0%})" if share > PERCENT_ABOVE else f" (about 1 in {round(1 / share):,})"
