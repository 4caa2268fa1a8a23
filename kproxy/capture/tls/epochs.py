"""Epochs: the keys of one direction, current and upcoming, and the next sequence number.

Keys are loaded when they are first needed, so that a key log may still grow while the capture is read. A wrong secret
opens nothing: of several candidates the right one is known with the first record.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kproxy.capture.tls.protection import Opener, opener_13
from kproxy.capture.tls.records import Record
from kproxy.capture.tls.schedule import hash_size, keys_13, next_secret
from kproxy.capture.tls.suites import CipherSuite

SEQUENCE_LIMIT = 1 << 64
MOST_AHEAD = 65_536  # sequence numbers tried after a gap
FIRST_TRIES = 2 << 20  # bytes that may be decrypted in vain for a connection; more are earned with its bytes
TRIES_PER_BYTE = 16
TRY_COST = 256  # besides the record's bytes
FEW = 16  # candidates that are always tried


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """Keys that may be the right ones."""

    opener: Opener
    secret: bytes
    suite: CipherSuite


@dataclass(slots=True)
class Opened:
    """A record's content."""

    content_type: int
    data: bytes
    skipped: int = 0  # sequence numbers skipped: missing records
    moved: bool = False  # it was the first of an epoch later than the current one


@dataclass(slots=True)
class Budget:
    """How many bytes may still be decrypted in vain."""

    left: int = FIRST_TRIES

    def earn(self, size: int) -> None:
        """Add to it: *size* more bytes of the connection came."""
        self.left += size * TRIES_PER_BYTE

    def spend(self, record: Record) -> None:
        """Subtract a try in vain."""
        self.left -= len(record.body) + TRY_COST


@dataclass(slots=True)
class Epoch:
    """A set of keys and its sequence numbers; *needs* is the key log's name of its secret."""

    name: str
    needs: str
    load: Callable[[], Iterable[Candidate]]
    sequence: int = 0
    used: bool = False  # it has opened a record
    _candidates: list[Candidate] = field(default_factory=list)
    _offset: int | None = None  # of the records' own counter

    @property
    def candidates(self) -> list[Candidate]:
        """The keys to try; a single one after the first record was opened."""
        if not self._candidates:
            self._candidates = list(self.load())
        return self._candidates

    def open(self, record: Record, ahead: int, budget: Budget) -> Opened | None:
        """Open a record with the next sequence number or up to *ahead* later ones; None when none opens it."""
        for number, candidate in enumerate(self.candidates):
            for sequence in self._sequences(candidate, record, ahead):
                if budget.left <= 0 and (sequence != self.sequence or number >= FEW):
                    break
                found = candidate.opener.open(record, sequence)
                if found is not None:
                    return self._right(candidate, record, sequence, found)
                budget.spend(record)
        return None

    def after_update(self) -> "Epoch | None":
        """The epoch after a key update of TLS 1.3; None before anything was opened, and in TLS 1.2."""
        if not self.used or not self._candidates[0].suite.tls13:
            return None
        secret, suite = next_secret(self._candidates[0].secret, self._candidates[0].suite), self._candidates[0].suite
        return Epoch(self.name, self.needs, lambda: candidates_13([secret], [suite]))

    @property
    def secret(self) -> bytes | None:
        """The secret that opened records."""
        return self._candidates[0].secret if self.used else None

    def _sequences(self, candidate: Candidate, record: Record, ahead: int) -> Iterable[int]:
        counter = candidate.opener.counter(record) if ahead else None
        if counter is not None:
            yield (counter - (self._offset or 0)) % SEQUENCE_LIMIT
            if self._offset is not None:
                return
        yield from range(self.sequence, min(self.sequence + ahead + 1, SEQUENCE_LIMIT))

    def _right(self, candidate: Candidate, record: Record, sequence: int, found: tuple[int, bytes]) -> Opened:
        skipped = sequence - self.sequence
        self._candidates = [candidate]
        self.used = True
        self.sequence = sequence + 1
        counter = candidate.opener.counter(record)
        self._offset = None if counter is None else (counter - sequence) % SEQUENCE_LIMIT
        return Opened(*found, skipped=max(0, skipped))


def candidates_13(secrets: Iterable[bytes], suites: Iterable[CipherSuite]) -> list[Candidate]:
    """The TLS 1.3 keys of these secrets with the suites of their size."""
    pairs = [(secret, suite) for suite in suites for secret in secrets if len(secret) == hash_size(suite)]
    return [Candidate(opener_13(keys_13(secret, suite), suite), secret, suite) for secret, suite in pairs]


class Epochs:
    """The epochs of one direction: the current one (None: in the clear) and those to come."""

    __slots__ = ("ahead", "current", "upcoming")

    def __init__(self) -> None:
        self.current: Epoch | None = None
        self.upcoming: list[Epoch] = []
        self.ahead = 0  # records that may be missing before the next one

    def miss(self, records: int) -> None:
        """Note that up to *records* records are missing."""
        self.ahead = min(self.ahead + records, MOST_AHEAD)

    def advance(self) -> None:
        """Begin the next epoch: the peer announced it."""
        if self.upcoming:
            self.current = self.upcoming.pop(0)

    def update(self) -> None:
        """Update the keys: the peer announced it (RFC 8446 section 4.6.3)."""
        following = None if self.current is None else self.current.after_update()
        if following is not None:
            self.current = following

    def open(self, record: Record, budget: Budget) -> Opened | None:
        """Open a record with the current keys or later ones; None when no keys open it."""
        current = self.current
        found = None if current is None else current.open(record, self.ahead, budget)
        if found is None:
            found = self._open_later(record, budget)
        if found is not None:
            self.ahead = 0
        elif current is not None and current.used:
            self.miss(1)  # perhaps damaged: the next one may still open
        return found

    def _open_later(self, record: Record, budget: Budget) -> Opened | None:
        for index, epoch in enumerate(self.upcoming):
            found = epoch.open(record, self.ahead, budget)
            if found is not None:
                found.moved = True
                self.current = epoch
                del self.upcoming[: index + 1]
                return found
        return self._open_updated(record, budget) if self.ahead and not self.upcoming else None

    def _open_updated(self, record: Record, budget: Budget) -> Opened | None:
        """Open it with updated keys: after a gap, the KeyUpdate may be among the missing records."""
        following = None if self.current is None else self.current.after_update()
        found = None if following is None else following.open(record, self.ahead, budget)
        if found is not None:
            found.skipped += 1
            self.current = following
        return found
