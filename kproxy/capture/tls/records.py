"""One direction's bytes cut into TLS records (RFC 8446 section 5.1), also after a gap."""

import re
from dataclasses import dataclass

HEADER_SIZE = 5
MAX_BODY = (1 << 14) + 2048  # RFC 5246 section 6.2.3; TLS 1.3 allows less
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = range(20, 25)

_HEADER = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it came; *header* is its first five bytes."""

    header: bytes
    body: bytes

    @property
    def content_type(self) -> int:
        """The one on the outside: TLS 1.3 says APPLICATION_DATA of everything encrypted."""
        return self.header[0]

    @property
    def wire_size(self) -> int:
        """With the header, in bytes."""
        return HEADER_SIZE + len(self.body)


def plausible(header: bytes | bytearray) -> bool:
    """Whether five bytes can be a record's header."""
    if len(header) < HEADER_SIZE or _HEADER.match(header) is None:
        return False
    return 0 < int.from_bytes(header[3:5], "big") <= MAX_BODY


class RecordBuffer:
    """Takes bytes, gives records. Holds at most one record and what was pushed last.

    broken: bytes came that are no record's header, so that from there on records are searched for.
    hunting: where records begin is not known; ``candidate`` then gives what may be one, to be accepted or rejected.
    """

    def __init__(self) -> None:
        self.hunting = False
        self.broken = False
        self.passed_over = 0  # bytes, in all
        self._buffer = bytearray()
        self._at = 0
        self._skip = 0

    @property
    def held(self) -> int:
        """Bytes that came and are part of no record yet."""
        return len(self._buffer) - self._at

    @property
    def missing(self) -> int | None:
        """Bytes that the record lacks of which some came; None when its header did not come or nothing did."""
        if self._skip:
            return self._skip
        size = self._size_at(self._at)
        return None if size is None or self.hunting else size - self.held

    def push(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._skip:
            passed = min(self._skip, len(data))
            self._skip -= passed
            self.passed_over += passed
            data = data[passed:]
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def next(self) -> Record | None:
        """The next whole record; None when more bytes are needed, or when hunting."""
        if self.hunting:
            return None
        size = self._size_at(self._at)
        if size is None:
            return None
        if not plausible(self._buffer[self._at : self._at + HEADER_SIZE]):
            self.broken = self.hunting = True
            return None
        if self.held < size:
            return None
        record = self._record(size)
        self._at += size
        return record

    def gap(self, size: int | None) -> bool:
        """Bytes are missing. Whether it is known where records go on: the gap lies within one of which the header came."""
        missing = self.missing
        self.passed_over += self.held
        self._buffer.clear()
        self._at = self._skip = 0
        if self.hunting or size is None or missing is None or size > missing:
            self.hunting = True
            return False
        self._skip = missing - size
        return True

    def candidate(self) -> Record | None:
        """What may be the next record; None when more bytes are needed."""
        while self.hunting:
            found = _HEADER.search(self._buffer, self._at)
            if found is None:
                self._pass_over(max(0, self.held - 2))
                return None
            self._pass_over(found.start() - self._at)
            size = self._size_at(self._at)
            if size is None or (plausible(self._buffer[self._at : self._at + HEADER_SIZE]) and self.held < size):
                return None
            if plausible(self._buffer[self._at : self._at + HEADER_SIZE]):
                return self._record(size)
            self._pass_over(1)
        return None

    def accept(self, record: Record) -> None:
        """The candidate is a record: go on after it."""
        self._at += record.wire_size
        self.hunting = False

    def reject(self) -> None:
        """The candidate is none: look further."""
        self._pass_over(1)

    def followed(self, record: Record) -> bool:
        """Whether what follows the candidate is another header, or nothing yet."""
        rest = self._buffer[self._at + record.wire_size :][:HEADER_SIZE]
        return not rest or (plausible(rest) if len(rest) == HEADER_SIZE else 20 <= rest[0] <= 24)

    def _pass_over(self, count: int) -> None:
        self._at += count
        self.passed_over += count

    def _size_at(self, at: int) -> int | None:
        if len(self._buffer) - at < HEADER_SIZE:
            return None
        return HEADER_SIZE + int.from_bytes(self._buffer[at + 3 : at + HEADER_SIZE], "big")

    def _record(self, size: int) -> Record:
        at = self._at
        return Record(bytes(self._buffer[at : at + HEADER_SIZE]), bytes(self._buffer[at + HEADER_SIZE : at + size]))
