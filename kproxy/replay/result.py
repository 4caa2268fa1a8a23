"""Result: the outcome of each request, where answers differ, what was not compared, what is left open; bounded for any replay.

Left open are transactions that were begun and not ended, and members that joined a group and did not leave it. A cluster keeps a
transaction for its producer's transaction.timeout.ms, a member for its session timeout. Until then consumers with
isolation.level=read_committed wait at the transaction, and partitions stay assigned to the member.

    transaction   Produce, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit   ─▶ EndTxn, or InitProducerId of its id
    member        JoinGroup                                                       ─▶ LeaveGroup
                  a heartbeat with epoch 0 (KIP-848, KIP-932, KIP-1071)           ─▶ one with an epoch below 0
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.comparing import Difference, LeftOut, error_codes_of
from kproxy.replay.explaining import explain
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.versions import Encoded

MOST = 100_000  # of each
# With which members join, and leave, too
JOINING_HEARTBEATS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)
BEGINNINGS = (ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT)
REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
Member = tuple[str, str]  # group, member id of the new cluster
MOST_EXAMPLES = 3  # of each kind of difference
MOST_KINDS = 1_000  # of differences, troubles and notes; what comes after is counted together
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction or a member that is open. *certain*: an answer of the cluster has confirmed it."""

    timeout_ms: int | None = None  # None: not known
    certain: bool = True
    instance: str | None = None  # group.instance.id of a member


@dataclass
class LeftOpen:
    """What one replay has left open so far."""

    _transactions: dict[str, Open] = field(default_factory=dict)
    _members: dict[Member, Open] = field(default_factory=dict)
    # transactional id -> transaction.timeout.ms of its producer
    _timeouts: dict[str, int] = field(default_factory=dict)
    _unanswered: dict[int, str | Member] = field(default_factory=dict)  # by number of the request

    def note_sent(self, number: int, api_key: int, body: Any) -> None:
        """Note what a request that goes out may begin, before its answer confirms it."""
        begun: str | Member | None = None
        if api_key in BEGINNINGS:
            begun = _transactional_id(body)
        elif api_key == ApiKey.JOIN_GROUP or (api_key in JOINING_HEARTBEATS and body.member_epoch == 0):
            begun = (body.group_id, body.member_id)
        if begun and len(self._unanswered) < MOST:
            self._unanswered[number] = begun

    def note_answer(self, number: int, api_key: int, body: Any, answer: Any) -> None:
        """Note the last answer to a request, both decoded."""
        self._unanswered.pop(number, None)
        if api_key in (*BEGINNINGS, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
            self._note_transaction(api_key, body, succeeded=_has_succeeded(api_key, answer))
        elif api_key == ApiKey.JOIN_GROUP and answer.error_code == ErrorCode.NONE:
            joined = Open(body.session_timeout_ms, instance=getattr(body, "group_instance_id", None))
            self._open((body.group_id, answer.member_id), joined)
        elif api_key in JOINING_HEARTBEATS:
            self._note_heartbeat(body, answer)
        elif api_key == ApiKey.HEARTBEAT and answer.error_code in REMOVED:
            self._members.pop((body.group_id, body.member_id), None)
        elif api_key == ApiKey.LEAVE_GROUP:
            self._note_leaving(body)

    def transactions(self) -> Iterator[tuple[str, Open]]:
        """Yield what is open, by transactional id."""
        yield from self._transactions.items()
        for one in dict.fromkeys(self._unanswered.values()):
            if isinstance(one, str) and one not in self._transactions:
                yield one, Open(self._timeouts.get(one), certain=False)

    def members(self) -> Iterator[tuple[Member, Open]]:
        """Yield what is open, by group and member id; the id is "" if the cluster was to assign it and did not answer."""
        yield from self._members.items()
        for one in dict.fromkeys(self._unanswered.values()):
            if isinstance(one, tuple) and one not in self._members:
                yield one, Open(certain=False)

    def _note_transaction(self, api_key: int, body: Any, *, succeeded: bool) -> None:
        name = _transactional_id(body)
        if not name or not succeeded:
            return
        if api_key in BEGINNINGS:
            if len(self._transactions) < MOST:
                self._transactions.setdefault(name, Open(self._timeouts.get(name)))
            return
        self._transactions.pop(name, None)
        if api_key == ApiKey.INIT_PRODUCER_ID and len(self._timeouts) < MOST:
            self._timeouts[name] = body.transaction_timeout_ms

    def _note_heartbeat(self, body: Any, answer: Any) -> None:
        member = (body.group_id, body.member_id or answer.member_id or "")
        if body.member_epoch < 0 or answer.error_code in REMOVED:
            self._members.pop(member, None)
        elif answer.error_code == ErrorCode.NONE:
            self._open(member, Open(instance=getattr(body, "instance_id", None)))

    def _note_leaving(self, body: Any) -> None:
        for one in body.members or [body]:  # versions before 3 name one (KIP-345)
            if one.member_id:
                self._members.pop((body.group_id, one.member_id), None)
            else:
                self._drop_instance(body.group_id, getattr(one, "group_instance_id", None))

    def _open(self, member: Member, joined: Open) -> None:
        self._drop_instance(member[0], joined.instance)  # a static member takes the place of the one before
        if len(self._members) < MOST:
            self._members[member] = joined

    def _drop_instance(self, group: str, instance: str | None) -> None:
        if instance is not None:
            for one in [
                key for key, member in self._members.items() if key[0] == group and member.instance == instance
            ]:
                del self._members[one]


def _transactional_id(body: Any) -> str | None:
    """Return the transactional id of a request, from the field that clients use.

    The batches of brokers (AddPartitionsToTxn from version 4 on), which use another one, are not sent.
    """
    name = getattr(body, "transactional_id", None) or getattr(body, "v3_and_below_transactional_id", None)
    return None if name is None else str(name)


def _has_succeeded(api_key: int, answer: Any) -> bool:
    """Return whether at least a part of the request succeeded."""
    # what it says of all is of the batches, and 0 in other versions
    of = answer.results_by_topic_v3_and_below if api_key == ApiKey.ADD_PARTITIONS_TO_TXN else (answer,)
    return any(code == ErrorCode.NONE for one in of for code in error_codes_of(one))


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
        """Count one more, and keep it as an example if there are few."""
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
        self.sent += 1
        self.sent_bytes += len(encoded.body)
        for name in encoded.lost:
            self.lost[recorded.api_name, name] += 1

    def note(self, recorded: Recorded, outcome: Outcome) -> None:
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
