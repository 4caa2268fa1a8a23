"""RecordBuffer: cut the bytes of one direction into TLS records (RFC 8446 section 5.1), also after a gap."""

import re
from dataclasses import dataclass

HEADER_SIZE = 5
MAX_BODY = (1 << 14) + 2048  # RFC 5246 section 6.2.3; TLS 1.3 allows less
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = range(20, 25)

_HEADER = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as received; *header* is its first five bytes."""

    header: bytes
    body: bytes

    @property
    def content_type(self) -> int:
        """The content type on the wire; in TLS 1.3 it is APPLICATION_DATA for everything encrypted."""
        return self.header[0]

    @property
    def wire_size(self) -> int:
        """Bytes, including the header."""
        return HEADER_SIZE + len(self.body)


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

    def candidate(self) -> Record | None:
        """Return what may be the next record; None if more bytes are needed."""
        while self.searching:
            match = _HEADER.search(self._buffer, self._at)
            if match is None:
                self._skip_bytes(max(0, self.held - 2))
                return None
            self._skip_bytes(match.start() - self._at)
            size = self._size_at(self._at)
            if size is None or (plausible(self._buffer[self._at : self._at + HEADER_SIZE]) and self.held < size):
                return None
            if plausible(self._buffer[self._at : self._at + HEADER_SIZE]):
                return self._record(size)
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
