"""Epochs: the keys of one direction, current and upcoming, and the next sequence number.

Keys are loaded when they are first needed, so the key log may still grow while the capture is read. A wrong secret opens no
record, so the first record reveals the right one of several candidates.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kproxy.capture.tls.protection import Opener, opener_13
from kproxy.capture.tls.records import Record
from kproxy.capture.tls.schedule import hash_size, keys_13, next_secret
from kproxy.capture.tls.suites import CipherSuite

SEQUENCE_LIMIT = 1 << 64
MOST_AHEAD = 65_536  # sequence numbers tried after a gap
FIRST_TRIES = 2 << 20  # bytes of failed decryption allowed per connection; its bytes allow more
TRIES_PER_BYTE = 16
TRY_COST = 256  # price of a failed try, in addition to the record's bytes
FEW = 16  # candidates that are always tried


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """Keys that may fit."""

    opener: Opener
    secret: bytes
    suite: CipherSuite


@dataclass(slots=True)
class Opened:
    """The content of a decrypted record."""

    content_type: int
    data: bytes
    skipped: int = 0  # sequence numbers skipped, for missing records
    moved: bool = False  # it was the first record of a later epoch


@dataclass(slots=True)
class Budget:
    """How many bytes of failed decryption are still allowed."""

    left: int = FIRST_TRIES

    def add(self, size: int) -> None:
        """Allow more, as *size* more bytes of the connection arrived."""
        self.left += size * TRIES_PER_BYTE

    def spend(self, record: Record) -> None:
        """Subtract the price of a failed try."""
        self.left -= len(record.body) + TRY_COST


@dataclass(slots=True)
class Epoch:
    """A set of keys and its sequence numbers; *needs* is the key log's name of its secret."""

    name: str
    needs: str
    load: Callable[[], Iterable[Candidate]]
    sequence: int = 0
    used: bool = False  # it has decrypted a record
    _candidates: list[Candidate] = field(default_factory=list)
    _offset: int | None = None  # distance of the records' explicit counter from the sequence number

    @property
    def candidates(self) -> list[Candidate]:
        """The keys to try; only one after the first decrypted record."""
        if not self._candidates:
            self._candidates = list(self.load())
        return self._candidates

    def open(self, record: Record, ahead: int, budget: Budget) -> Opened | None:
        """Decrypt a record with the next sequence number or up to *ahead* later ones; None if none fits."""
        for number, candidate in enumerate(self.candidates):
            for sequence in self._sequences(candidate, record, ahead):
                if budget.left <= 0 and (sequence != self.sequence or number >= FEW):
                    break
                content = candidate.opener.open(record, sequence)
                if content is not None:
                    return self._right(candidate, record, sequence, content)
                budget.spend(record)
        return None

    def after_update(self) -> "Epoch | None":
        """Return the epoch after a key update of TLS 1.3; None before the first decrypted record, and in TLS 1.2."""
        if not self.used or not self._candidates[0].suite.tls13:
            return None
        secret, suite = next_secret(self._candidates[0].secret, self._candidates[0].suite), self._candidates[0].suite
        return Epoch(self.name, self.needs, lambda: candidates_13([secret], [suite]))

    @property
    def secret(self) -> bytes | None:
        """The secret that decrypted records."""
        return self._candidates[0].secret if self.used else None

    def _sequences(self, candidate: Candidate, record: Record, ahead: int) -> Iterable[int]:
        counter = candidate.opener.counter(record) if ahead else None
        if counter is not None:
            yield (counter - (self._offset or 0)) % SEQUENCE_LIMIT
            if self._offset is not None:
                return
        yield from range(self.sequence, min(self.sequence + ahead + 1, SEQUENCE_LIMIT))

    def _right(self, candidate: Candidate, record: Record, sequence: int, content: tuple[int, bytes]) -> Opened:
        skipped = sequence - self.sequence
        self._candidates = [candidate]
        self.used = True
        self.sequence = sequence + 1
        counter = candidate.opener.counter(record)
        self._offset = None if counter is None else (counter - sequence) % SEQUENCE_LIMIT
        return Opened(*content, skipped=max(0, skipped))


def candidates_13(secrets: Iterable[bytes], suites: Iterable[CipherSuite]) -> list[Candidate]:
    """Return the TLS 1.3 keys for these secrets with each suite of matching size."""
    pairs = [(secret, suite) for suite in suites for secret in secrets if len(secret) == hash_size(suite)]
    return [Candidate(opener_13(keys_13(secret, suite), suite), secret, suite) for secret, suite in pairs]


class Epochs:
    """The epochs of one direction: the current one (None: not encrypted yet) and the upcoming ones."""

    __slots__ = ("ahead", "current", "upcoming")

    def __init__(self) -> None:
        self.current: Epoch | None = None
        self.upcoming: list[Epoch] = []
        self.ahead = 0  # how many records may be missing before the next one

    def miss(self, records: int) -> None:
        """Note that up to *records* records are missing."""
        self.ahead = min(self.ahead + records, MOST_AHEAD)

    def advance(self) -> None:
        """Begin the next epoch, which the peer announced."""
        if self.upcoming:
            self.current = self.upcoming.pop(0)

    def update(self) -> None:
        """Update the keys, as the peer announced (RFC 8446 section 4.6.3)."""
        following = None if self.current is None else self.current.after_update()
        if following is not None:
            self.current = following

    def open(self, record: Record, budget: Budget) -> Opened | None:
        """Decrypt a record with the current keys or later ones; None if no keys fit."""
        current = self.current
        opened = None if current is None else current.open(record, self.ahead, budget)
        if opened is None:
            opened = self._open_later(record, budget)
        if opened is not None:
            self.ahead = 0
        elif current is not None and current.used:
            self.miss(1)  # it may be damaged, so the next one must be found without it
        return opened

    def _open_later(self, record: Record, budget: Budget) -> Opened | None:
        for index, epoch in enumerate(self.upcoming):
            opened = epoch.open(record, self.ahead, budget)
            if opened is not None:
                opened.moved = True
                self.current = epoch
                del self.upcoming[: index + 1]
                return opened
        return self._open_updated(record, budget) if self.ahead and not self.upcoming else None

    def _open_updated(self, record: Record, budget: Budget) -> Opened | None:
        """Decrypt with updated keys: after a gap, the KeyUpdate may be among the missing records."""
        following = None if self.current is None else self.current.after_update()
        opened = None if following is None else following.open(record, self.ahead, budget)
        if opened is not None:
            opened.skipped += 1
            self.current = following
        return opened
