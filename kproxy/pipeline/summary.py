"""Count the events of a run and summarise them in sentences: how many, and how often each kind of trouble occurred."""

from collections import Counter
from collections.abc import Iterator, Mapping

from kproxy.output.bodies import Bodies
from kproxy.output.escaping import printable
from kproxy.output.times import counted, render_size
from kproxy.output.tls import JOINED_LATE_HINT, KEYS_HINT, joined_late
from kproxy.pipeline.output import Observer
from kproxy.session import BadFrame, Cut, Event, Exchange, Gap, NotKafka, SaslToken, Tls

REASONS = 5
_CUT = {cut: cut.text for cut in Cut} | {
    Cut.RESET: "cut by the connection's end",
    Cut.CAPTURE_ENDED: "cut by the capture's end",
}
KEPT = 200  # reasons counted separately; a hostile capture can contain any number


class Summary(Observer):
    """Counts events; ``lines`` yields the sentences at the end of ``kproxy decode``."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.shown = 0
        self.frames = 0
        self.connections: set[int] = set()
        self.cut: Counter[str] = Counter()  # frames without their end, by reason
        self.tokens = 0
        self.gaps = 0
        self.lost = 0
        self.skipped = 0
        self.undecoded: Counter[str] = Counter()
        self.unanswered: Counter[str] = Counter()
        self.bad_frames: Counter[str] = Counter()
        self.not_kafka: Counter[str] = Counter()
        self.decrypted = 0  # TLS connections
        self.encrypted = 0  # TLS connections that a key log could decrypt
        self.joined_late = 0  # TLS connections that no key log could decrypt, as the handshake is missing

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Count one event."""
        if isinstance(event, Exchange):
            self.exchanges += 1
            self.shown += shown
            if (request := event.request) is not None:
                self.frames += 1
                if request.cut:
                    self.cut[_CUT[request.cut]] += 1
            if (response := event.response) is not None:
                self.frames += 1
                if response.cut:
                    self.cut[_CUT[response.cut]] += 1
            self.connections.add(event.connection.number)
            if event.undecoded is not None:
                _add(self.undecoded, event.undecoded)
            if event.unanswered is not None:
                _add(self.unanswered, event.unanswered)
        else:
            self._count_other(event)

    def add(self, other: "Summary") -> None:
        """Add the counts of another part of the same source."""
        self.connections |= other.connections
        for name, value in vars(other).items():
            total = getattr(self, name)
            if isinstance(total, Counter):
                for reason, count in value.items():
                    _add(total, reason, count)
            elif isinstance(total, int):
                setattr(self, name, total + value)

    def _count_other(self, event: Event) -> None:
        match event:
            case SaslToken():
                self.tokens += 1
            case Gap():
                self.gaps += 1
                self.lost += event.size or 0
                self.skipped += event.skipped
            case BadFrame():
                _add(self.bad_frames, event.reason)
            case NotKafka():
                facts = event.connection.tls
                closed = facts is not None and facts.missing
                if facts is not None and closed:
                    self.joined_late += joined_late(facts)
                    self.encrypted += not joined_late(facts)
                what = f"not decrypted: {'; '.join(facts.missing)}" if facts is not None and closed else event.what
                _add(self.not_kafka, f"{event.kind}: {what}")
            case Tls():
                self.decrypted += 1

    def not_shown(self) -> Iterator[str]:
        """Yield sentences on everything else in the source: connections that are not Kafka, how to read TLS, gaps."""
        for reason, count in _most(self.not_kafka):
            yield f"{counted(count, 'connection')} not shown: {printable(reason, 300)}"
        yield from (f"To read TLS{hint}" for hint in self._tls_hints())
        if self.lost or self.skipped:
            yield f"{counted(self.gaps, 'gap')} in the connections: {self._sizes_of_gaps()}"

    def _tls_hints(self) -> Iterator[str]:
        """Yield the rest of sentences that begin with "to read TLS"."""
        if self.encrypted:
            yield f", {KEYS_HINT}"
        if self.joined_late:
            yield f" that the capture joins late, {JOINED_LATE_HINT}"

    def _sizes_of_gaps(self) -> str:
        return f"{render_size(self.lost)} missing, {render_size(self.skipped)} passed over"

    def lines(self, counters: Mapping[str, int] | None = None) -> Iterator[str]:
        """Yield the summary: a sentence of counts, then a line for each kind of trouble. *counters*: packets passed over."""
        tokens = f", {counted(self.tokens, 'SASL token')}" if self.tokens else ""
        undecoded = f"{sum(self.undecoded.values())} undecoded" if self.undecoded else "none undecoded"
        gaps = counted(self.gaps, "gap") if self.gaps else "no gaps"
        yield (
            f"{counted(self.frames, 'frame')} in {counted(self.exchanges, 'exchange')} on "
            f"{counted(len(self.connections), 'connection')}{tokens}; {undecoded}, {gaps}"
        )
        if self.shown != self.exchanges:
            yield f"  {self.shown:,} shown"
        yield from _reasons("undecoded", self.undecoded)
        yield from _reasons("unanswered", self.unanswered)
        yield from _reasons("bad frame", self.bad_frames)
        yield from _reasons("not Kafka", self.not_kafka)
        if self.decrypted:
            yield f"  {counted(self.decrypted, 'TLS connection')} decrypted"
        yield from (f"  to read TLS{hint}" for hint in self._tls_hints())
        for why, count in sorted(self.cut.items()):
            yield f"  bodies {why}: {count:,} of {counted(self.frames, 'frame')}"
        if self.lost or self.skipped:
            yield f"  gaps: {self._sizes_of_gaps()}"
        for name, count in (counters or {}).items():
            yield f"  {counted(count, 'packet')} passed over: {name}"


def _add(counter: Counter[str], reason: str, count: int = 1) -> None:
    known = reason in counter or len(counter) < KEPT
    counter[reason if known else "other reasons"] += count


def _most(reasons: Counter[str]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:REASONS]


def _reasons(what: str, reasons: Counter[str]) -> Iterator[str]:
    most = _most(reasons)
    for reason, count in most:
        yield f"  {what} x{count:,}: {printable(reason, 300)}"
    rest = sum(reasons.values()) - sum(count for _, count in most)
    if rest:
        yield f"  {what} x{rest:,}: for {len(reasons) - REASONS} other reasons"
