"""Half: one direction of a TLS connection, from its bytes to decrypted records, also after a gap.

``RecordBuffer`` cuts the bytes into records (RFC 8446 section 5.1). ``Epochs`` are the keys, current and upcoming, each with its
next sequence number. Keys are loaded when they are first needed, so the key log may still grow while the capture is read. A wrong
secret opens no record, so the first record reveals the right one of several candidates. connection.py has the states of a Half.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kproxy.capture.tls.ciphers import (
    HEADER_SIZE,
    CipherSuite,
    Opener,
    Record,
    hash_size,
    keys_13,
    next_secret,
    opener_13,
)
from kproxy.capture.tls.messages import MessageBuffer
from kproxy.protocol import Direction
from kproxy.session.events import TlsTraffic

MAX_BODY = (1 << 14) + 2048  # RFC 5246 section 6.2.3; TLS 1.3 allows less
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = range(20, 25)

_HEADER = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]", re.DOTALL)


def plausible(header: bytes | bytearray) -> bool:
    """Return whether five bytes can be a record's header."""
    if len(header) < HEADER_SIZE or _HEADER.match(header) is None:
        return False
    return 0 < int.from_bytes(header[3:5], "big") <= MAX_BODY


class RecordBuffer:
    """Holds at most one incomplete record and the latest chunk.

    broken: some bytes were not a record header; the owner resets it.
    searching: the beginning of records is unknown; ``candidate`` then returns possible records, to be accepted or rejected.
    """

    def __init__(self) -> None:
        self.searching = False
        self.broken = False
        self.skipped_bytes = 0
        self._buffer = bytearray()
        self._at = 0
        self._skip = 0

    @property
    def held(self) -> int:
        """Bytes in the buffer that do not belong to a complete record."""
        return len(self._buffer) - self._at

    @property
    def missing(self) -> int | None:
        """Bytes that an incomplete record still lacks; None without its header."""
        if self._skip:
            return self._skip
        size = self._size_at(self._at)
        return None if size is None or self.searching else size - self.held

    def push(self, data: bytes) -> None:
        """Append the next bytes."""
        if self._skip:
            passed = min(self._skip, len(data))
            self._skip -= passed
            self.skipped_bytes += passed
            data = data[passed:]
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def next(self) -> Record | None:
        """Return the next complete record; None if more bytes are needed, or while searching."""
        if self.searching:
            return None
        size = self._size_at(self._at)
        if size is None:
            return None
        if not plausible(self._buffer[self._at : self._at + HEADER_SIZE]):
            self.broken = self.searching = True
            return None
        if self.held < size:
            return None
        record = self._record(size)
        self._at += size
        return record

    def gap(self, size: int | None) -> bool:
        """Note missing bytes; return whether the next record's position is known, as the gap is inside one record."""
        missing = self.missing
        self.skipped_bytes += self.held
        self._buffer.clear()
        self._at = self._skip = 0
        if self.searching or size is None or missing is None or size > missing:
            self.searching = True
            return False
        self._skip = missing - size
        return True

    def candidate(self, *, ended: bool) -> Record | None:
        """Return what may be the next record; None if more bytes are needed.

        Args:
            ended: no bytes follow, so what looks like a header of a longer record was none.
        """
        while self.searching:
            match = _HEADER.search(self._buffer, self._at)
            if match is None:
                self._skip_bytes(max(0, self.held - 2))
                return None
            self._skip_bytes(match.start() - self._at)
            size = self._size_at(self._at)
            if size is None:
                return None
            if plausible(self._buffer[self._at : self._at + HEADER_SIZE]):
                if self.held >= size:
                    return self._record(size)
                if not ended:
                    return None
            self._skip_bytes(1)
        return None

    def accept(self, record: Record) -> None:
        """Accept the candidate as a record, and continue behind it."""
        self._at += record.wire_size
        self.searching = False

    def reject(self) -> None:
        """Continue the search behind the candidate's first byte."""
        self._skip_bytes(1)

    def followed(self, record: Record) -> bool:
        """Return whether the candidate is followed by another header, or by no bytes yet."""
        rest = self._buffer[self._at + record.wire_size :][:HEADER_SIZE]
        return not rest or (plausible(rest) if len(rest) == HEADER_SIZE else 20 <= rest[0] <= 24)

    def _skip_bytes(self, count: int) -> None:
        self._at += count
        self.skipped_bytes += count

    def _size_at(self, at: int) -> int | None:
        if len(self._buffer) - at < HEADER_SIZE:
            return None
        return HEADER_SIZE + int.from_bytes(self._buffer[at + 3 : at + HEADER_SIZE], "big")

    def _record(self, size: int) -> Record:
        at = self._at
        return Record(bytes(self._buffer[at : at + HEADER_SIZE]), bytes(self._buffer[at + HEADER_SIZE : at + size]))


SEQUENCE_LIMIT = 1 << 64
MOST_AHEAD = 65_536  # sequence numbers tried after a gap
FIRST_TRIES = 2 << 20  # bytes of failed decryption allowed per connection; its bytes allow more
TRIES_PER_BYTE = 16
TRY_COST = 256  # price of a failed try, in addition to the record's bytes
ALWAYS_TRIED = 16  # candidates that are tried whatever the budget


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
                if budget.left <= 0 and (sequence != self.sequence or number >= ALWAYS_TRIED):
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


SMALLEST_ENCRYPTED = HEADER_SIZE + 17
MOST_MISSED = 4096  # records assumed to be missing if the number of missing bytes is unknown


class Half:
    """One direction.

    latest: the latest time of the bytes of the incomplete record, which becomes its time (packets overtake each other).
    tls13: the connection is TLS 1.3. lost: application data is known to be missing before the next record.
    """

    def __init__(self, direction: Direction, traffic: TlsTraffic, budget: Budget) -> None:
        self.direction = direction
        self.traffic = traffic
        self.buffer = RecordBuffer()
        self.messages = MessageBuffer()
        self.epochs = Epochs()
        self.finished = False
        self.tls13 = False
        self.lost = False
        self.latest = 0  # ns
        self._budget = budget

    def is_protected(self, record: Record) -> bool:
        """Return whether the record is encrypted, by its content type and the keys in use."""
        if record.content_type == APPLICATION_DATA:
            return True  # the type of all encrypted records of TLS 1.3; never plain in TLS 1.2
        return self.epochs.current is not None and not self.tls13

    def records(self, *, ended: bool = False) -> Iterator[tuple[Record, Opened | None]]:
        """Yield the complete records, each with its decrypted content if it is encrypted and keys fit.

        Args:
            ended: the bytes that would follow are missing.
        """
        while True:
            record = self.buffer.next()
            if record is not None:
                yield record, self._open(record)
            elif not self.buffer.searching or (located := self._search(ended)) is None:
                return
            else:
                yield located

    def gap(self, size: int | None) -> None:
        """Note that *size* bytes are missing (None: an unknown number)."""
        held = self.buffer.held
        most = MOST_MISSED if size is None else (size + held) // SMALLEST_ENCRYPTED + 2
        self.miss(1 if self.buffer.gap(size) else most)

    def miss(self, records: int) -> None:
        """Note that up to *records* records of unknown content are missing here."""
        self.messages.clear()
        self.epochs.miss(records)
        self.lost = True

    def _open(self, record: Record) -> Opened | None:
        if self.is_protected(record) or (self.epochs.ahead and self.epochs.upcoming and not self.tls13):
            return self.epochs.open(record, self._budget)
        return None

    def _search(self, ended: bool) -> tuple[Record, Opened | None] | None:
        """Find the next record. With keys, it has to decrypt; without keys, another header has to follow it."""
        while (record := self.buffer.candidate(ended=ended)) is not None:
            opened = self._open(record)
            if opened is not None or (self._may_be_closed(record) and self.buffer.followed(record)):
                self.buffer.accept(record)
                return record, opened
            self.buffer.reject()
        return None

    def _may_be_closed(self, record: Record) -> bool:
        """Return whether a candidate may be a record although no keys decrypt it."""
        if self.is_protected(record):
            return not self._has_keys()
        return self.epochs.current is None  # encrypted records of TLS 1.3 have the outer type APPLICATION_DATA

    def _has_keys(self) -> bool:
        epochs = [self.epochs.current, *self.epochs.upcoming]
        return any(epoch is not None and epoch.candidates for epoch in epochs)
