"""Half: one direction of a TLS connection, with its records, keys and handshake messages. connection.py has its states."""

from collections.abc import Iterator

from kproxy.capture.tls.epochs import Budget, Epochs, Opened
from kproxy.capture.tls.messages import MessageBuffer
from kproxy.capture.tls.records import APPLICATION_DATA, HEADER_SIZE, Record, RecordBuffer
from kproxy.protocol import Direction
from kproxy.session.tls_facts import TlsTraffic

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

    def records(self) -> Iterator[tuple[Record, Opened | None]]:
        """Yield the complete records, each with its decrypted content if it is encrypted and keys fit."""
        while True:
            record = self.buffer.next()
            if record is not None:
                yield record, self._open(record)
            elif not self.buffer.searching or (located := self._search()) is None:
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

    def _search(self) -> tuple[Record, Opened | None] | None:
        """Find the next record. With keys, it has to decrypt; without keys, another header has to follow it."""
        while (record := self.buffer.candidate()) is not None:
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
