"""Result: the outcome of each request, where answers differ, and what was not compared; bounded for any replay."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from kproxy.replay.comparing import Difference
from kproxy.replay.explaining import explain
from kproxy.replay.left_open import LeftOpen
from kproxy.replay.left_out import LeftOut
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.versions import Encoded

MOST_EXAMPLES = 3  # of each kind of difference
MOST_KINDS = 1_000  # of differences, troubles and notes; what comes after is counted together
OTHERS = "others"


class Outcome(StrEnum):
    """The outcome of a request."""

    SAME = "same"  # as recorded, except for fields that are not compared
    DIFFERENT = "different"
    NO_ANSWER = "no answer"  # although one was recorded; or one that cannot be read
    UNANSWERED = "without an answer"  # as intended: acks=0
    NOT_RECORDED = "answer not recorded"  # nothing to compare with


@dataclass(slots=True)
class Kind:
    """Differences of one field between the same two values; if there are too many kinds, between any values."""

    count: int = 0
    why: str | None = None  # None: not known
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(example)


@dataclass
class Result:
    """The result of a replay, or of its part so far."""

    outcomes: dict[str, Counter[Outcome]] = field(default_factory=dict)  # API -> outcome -> requests
    differences: dict[tuple[str, str, str, str], Kind] = field(default_factory=dict)  # API, path, recorded, now
    troubles: dict[tuple[str, str], Kind] = field(default_factory=dict)  # API, why there is no answer
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    unsent: Counter[tuple[str, str]] = field(default_factory=Counter)  # found when they were due: API, reason
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)  # API, field that the version sent cannot carry
    notes: Counter[str] = field(default_factory=Counter)
    left_open: LeftOpen = field(default_factory=LeftOpen)
    planned: int = 0  # requests that are to be sent
    sent: int = 0
    sent_bytes: int = 0
    connections: int = 0  # opened
    repeated: int = 0  # requests sent again, as the new cluster was not ready
    interrupted: bool = False
    ended: str = ""  # why, before all requests were sent

    @property
    def differs(self) -> bool:
        """Whether any answer differed from the recorded one."""
        return bool(self.differences or self.troubles)

    @property
    def awaited(self) -> int:
        """How many requests were sent and have no answer yet: whether the cluster has processed them is not known."""
        return self.sent - sum(map(self.count, Outcome))

    @property
    def not_reached(self) -> int:
        """How many requests were not due yet."""
        return max(self.planned - self.sent - self.unsent.total(), 0)

    def count(self, outcome: Outcome) -> int:
        """Return how many requests had that outcome."""
        return sum(counts[outcome] for counts in self.outcomes.values())

    def note_sent(self, recorded: Recorded, encoded: Encoded) -> None:
        """Note a request that is sent."""
        self.sent += 1
        self.sent_bytes += len(encoded.body)
        for name in encoded.lost:
            self.lost[recorded.api_name, name] += 1

    def note(self, recorded: Recorded, outcome: Outcome) -> None:
        """Note the outcome of a request."""
        self.outcomes.setdefault(recorded.api_name, Counter())[outcome] += 1

    def note_trouble(self, recorded: Recorded, why: str) -> None:
        """Note that a request has no answer, or none that can be read."""
        self.note(recorded, Outcome.NO_ANSWER)
        key = (recorded.api_name, why)
        if key not in self.troubles and len(self.troubles) >= MOST_KINDS:
            key = (recorded.api_name, OTHERS)
        self.troubles.setdefault(key, Kind()).add(which(recorded))

    def note_difference(self, recorded: Recorded, difference: Difference) -> None:
        """Note a field of an answer that differs from the recorded one."""
        self._note(recorded.api_name, difference, f"{difference.where}, {which(recorded)}")

    def note_fetched(self, connection: ConnectionId, difference: Difference) -> None:
        """Note that the records read from a partition in all differ from the recorded ones."""
        self._note("Fetch", difference, f"{difference.where}, connection {connection[1]}")

    def _note(self, api_name: str, difference: Difference, example: str) -> None:
        key = (api_name, difference.path, difference.recorded, difference.new)
        if key not in self.differences and len(self.differences) >= MOST_KINDS:
            key = (api_name, difference.path, OTHERS, OTHERS)
        self.differences.setdefault(key, Kind(why=explain(api_name, difference))).add(example)


def which(recorded: Recorded) -> str:
    """Describe a request in words, so that it can be found with ``kproxy decode``."""
    return f"request {recorded.number} (correlation id {recorded.correlation_id} of {recorded.client})"
