"""TlsConnection: decrypt both directions of a TLS connection, and collect facts about it. No I/O, no clock.

The machine: each Half (direction) has two independent states, and a connection one more.

    where records begin (Half.buffer)
    IN STEP       known: the next byte of the buffer begins a record, or the rest of a record with a gap is being skipped
    SEARCHING     unknown: every position is tried as the beginning of a record
      IN STEP -> SEARCHING     at bytes that are not a record header, or a gap that is not inside one record
      SEARCHING -> IN STEP     at a candidate that the keys open; without keys, at one that another header follows

    which keys protect records (Half.epochs)
    CLEAR         current is None: the handshake in the clear
    an epoch      current: "early data", "handshake" or "application data" (TLS 1.3), "application data" (TLS 1.2);
                  upcoming lists the epochs that may follow, in order
      TLS 1.3  CLEAR -> early data -> handshake -> application data
               by a record that opens with the keys of a later epoch (some may be skipped after a gap), by EndOfEarlyData,
               by Finished; KeyUpdate replaces the keys of the epoch
      TLS 1.2  CLEAR -> application data by ChangeCipherSpec; again by each ChangeCipherSpec of a renegotiation
    There is no way back to CLEAR.

    early data (TlsFacts.early_data)
    None -> offered (ClientHello) -> accepted (EncryptedExtensions, EndOfEarlyData) or rejected (EncryptedExtensions,
    HelloRetryRequest). While it is offered, decrypted early data is kept; accepted delivers it, rejected drops it.

A record that the keys open is handled by its inner content type. A record that they do not open, and a gap, set ``lost``: Lost
then precedes the next application data. After a gap, up to MOST_AHEAD sequence numbers are tried.

Who owns which bytes, and what bounds them: RecordBuffer holds one incomplete record (18 KB) and the latest chunk; MessageBuffer
holds one incomplete handshake message; at most MOST_EARLY bytes of early data are kept; failed decryption is bounded by
records.Budget. Plain.data belongs to the receiver.

handshake.py interprets handshake messages; this module handles records.
"""

from kproxy.capture.items import Lost, Plain, TlsItem, TlsProblem
from kproxy.capture.tls.ciphers import Record, alert_name
from kproxy.capture.tls.handshake import Handshake
from kproxy.capture.tls.keylog import KeyLog
from kproxy.capture.tls.messages import MessageType
from kproxy.capture.tls.records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Budget,
    Epochs,
    Half,
    Opened,
)
from kproxy.errors import DecodeError
from kproxy.protocol import Direction
from kproxy.session.events import TlsFacts

MOST_PROBLEMS = 16
FEW = 16  # records assumed to be missing at bytes that are not a record
MOST_ALERTS = 8
MOST_EARLY = 1 << 20  # bytes of early data kept until the broker accepts or rejects it
ALERT_SIZES = {
    24,
    40,
}  # bytes of a record of TLS 1.3 with an alert: header, two bytes, type and tag; Java adds 16 of padding
UNREADABLE = "an alert that only the keys could read, in place of data"
NOT_ERRORS = {0, 90}  # close_notify, user_canceled
FATAL = 2


class TlsConnection:
    """One TLS connection of a capture, from its ClientHello on; never raises for any bytes.

    Args:
        keylog: the secrets; without any, only ``facts`` are delivered.

    *facts* is updated as the connection goes on, and delivered once as an item, before the first application data or at the
    end.
    """

    def __init__(self, keylog: KeyLog) -> None:
        self.facts = TlsFacts()
        budget = Budget()
        self._budget = budget
        self._client = Half(Direction.REQUEST, self.facts.requests, budget)
        self._broker = Half(Direction.RESPONSE, self.facts.responses, budget)
        self._handshake = Handshake(self.facts, self._client, self._broker, keylog)
        self._early: list[Plain] = []
        self._early_size = 0
        self._facts_delivered = False
        self._problems = 0
        self._unread: tuple[list[int], list[int]] = ([], [])  # see _note_unread

    def receive(self, direction: Direction, data: bytes, at: int) -> list[TlsItem | TlsFacts]:
        """Receive the next bytes of a direction, at *at* ns since the epoch; return the resulting items."""
        out: list[TlsItem | TlsFacts] = []
        half = self._half(direction)
        self._budget.add(len(data))
        half.buffer.push(data)
        self._receive_records(half, at, out)
        if half.buffer.broken:
            half.buffer.broken = False
            half.miss(FEW)
            self._problem(half, at, "bytes that are no TLS record; records are searched for from here on", out)
        return out

    def gap(self, direction: Direction, size: int | None, at: int) -> list[TlsItem | TlsFacts]:
        """Note that *size* bytes are missing in the capture; None: an unknown number."""
        out: list[TlsItem | TlsFacts] = []
        half = self._half(direction)
        self._receive_records(half, half.latest, out, ended=True)
        half.gap(size)
        many = "an unknown number of" if size is None else f"{size:,}"
        self._problem(half, at, f"{many} bytes of TLS records are missing in the capture", out)
        return out

    def close(self, at: int) -> list[TlsItem | TlsFacts]:
        """End the connection; return the remaining items."""
        out: list[TlsItem | TlsFacts] = []
        for half in (self._client, self._broker):
            self._receive_records(half, half.latest, out, ended=True)
            if half.lost and self.facts.decrypted:
                self._deliver_lost(half, at, out)
        self._handshake.explain()
        self._explain_unread()
        for half in (self._client, self._broker):
            half.epochs = Epochs()  # breaks the reference cycle epochs -> handshake -> halves -> epochs
        self._deliver_facts(out)
        return out

    def _half(self, direction: Direction) -> Half:
        return self._client if direction == Direction.REQUEST else self._broker

    # Records

    def _receive_records(self, half: Half, at: int, out: list[TlsItem | TlsFacts], *, ended: bool = False) -> None:
        latest = max(at, half.latest)
        for record, opened in half.records(ended=ended):
            self._receive_record(half, record, opened, latest, out)
            latest = at  # the next record begins in these bytes
        half.latest = latest if half.buffer.held else 0

    def _receive_record(
        self, half: Half, record: Record, opened: Opened | None, at: int, out: list[TlsItem | TlsFacts]
    ) -> None:
        half.traffic.records += 1
        half.traffic.wire_size += record.wire_size
        if opened is not None:
            self._receive_opened(half, opened, at, out)
        elif half.is_protected(record):
            self._receive_unopened(half, record, at)
        elif record.content_type == HANDSHAKE:
            self._receive_messages(half, record.body, at, out)
        elif record.content_type == CHANGE_CIPHER_SPEC:
            self._handshake.change_cipher(half)
        elif record.content_type == ALERT:
            self._receive_alert(half, record.body)

    def _receive_opened(self, half: Half, opened: Opened, at: int, out: list[TlsItem | TlsFacts]) -> None:
        if opened.moved:
            half.messages.clear()
            half.lost = self._is_early_lost(half)  # other unreadable bytes belonged to the handshake
        if opened.skipped:
            half.traffic.lost += opened.skipped
            half.messages.clear()
            half.lost = True
        if opened.content_type == APPLICATION_DATA:
            self._deliver(half, opened.data, at, out)
        elif opened.content_type == HANDSHAKE:
            self._receive_messages(half, opened.data, at, out)
        elif opened.content_type == ALERT:
            self._receive_alert(half, opened.data)
        elif opened.content_type == CHANGE_CIPHER_SPEC:
            self._handshake.change_cipher(half)

    def _receive_unopened(self, half: Half, record: Record, at: int) -> None:
        half.traffic.not_decrypted += 1
        if record.content_type == APPLICATION_DATA:
            half.lost = True
            self._note_unread(half, record.wire_size)
        elif record.content_type == HANDSHAKE:
            self._handshake.on_closed_message(half, at)

    def _receive_messages(self, half: Half, data: bytes, at: int, out: list[TlsItem | TlsFacts]) -> None:
        for kind, body in half.messages.push(data):
            try:
                self._handshake.receive(half, kind, body, at)
            except DecodeError as error:
                self._problem(half, at, f"a handshake message that cannot be read: {error}", out)
            if kind in {MessageType.ENCRYPTED_EXTENSIONS, MessageType.END_OF_EARLY_DATA}:
                self._settle_early(out)

    def _receive_alert(self, half: Half, body: bytes) -> None:
        if len(body) != 2 or body[1] in NOT_ERRORS or len(self.facts.alerts) >= MOST_ALERTS:
            return
        severity = "fatal " if body[0] == FATAL else ""
        self.facts.alerts.append(f"{_side(half.direction)}: {severity}{alert_name(body[1])}")

    def _note_unread(self, half: Half, size: int) -> None:
        """Note the sizes of the client's first unread records, and of the broker's behind the first of them."""
        sent, answered = self._unread
        sizes = sent if half is self._client else answered
        if len(sizes) < FEW and (sent or half is self._client):
            sizes.append(size)

    def _explain_unread(self) -> None:
        """Say who ended a handshake of TLS 1.3 by an alert: with no record behind the handshake but one of an alert's size."""
        sent, answered = self._unread
        if self.facts.version != "TLS 1.3" or self._problems or self.facts.alerts:
            return
        if len(sent) == 1 and sent[0] in ALERT_SIZES:
            self.facts.alerts.append(f"client: {UNREADABLE}")
        elif len(answered) == 1 and answered[0] in ALERT_SIZES and not ALERT_SIZES.intersection(sent):
            self.facts.alerts.append(f"broker: {UNREADABLE}")

    # Application data

    def _is_early_lost(self, half: Half) -> bool:
        """Return whether the broker accepted early data that could not be read."""
        return half is self._client and self.facts.early_data == "accepted" and not self._early_size

    def _deliver(self, half: Half, data: bytes, at: int, out: list[TlsItem | TlsFacts]) -> None:
        half.traffic.plain_size += len(data)
        self.facts.decrypted = True
        plain = Plain(half.direction, at, data)
        if half is self._client and self._handshake.is_early(half):
            self._keep_early(plain, out)
            return
        self._deliver_facts(out)
        if half.lost:
            self._deliver_lost(half, at, out)
        if data:
            out.append(plain)

    def _keep_early(self, plain: Plain, out: list[TlsItem | TlsFacts]) -> None:
        """Keep early data until the broker accepts it; if it does not, the client sends the data again."""
        self._early_size += len(plain.data)
        if self._early_size <= MOST_EARLY:
            self._early.append(plain)
        else:
            self._early.clear()
        self._settle_early(out)

    def _settle_early(self, out: list[TlsItem | TlsFacts]) -> None:
        answer = self.facts.early_data
        if answer == "accepted" and self._early:
            self._deliver_facts(out)
            out += self._early
        if answer in {"accepted", "rejected"}:
            self._early.clear()

    # Other items

    def _deliver_facts(self, out: list[TlsItem | TlsFacts]) -> None:
        if not self._facts_delivered:
            self._facts_delivered = True
            out.append(self.facts)

    def _deliver_lost(self, half: Half, at: int, out: list[TlsItem | TlsFacts]) -> None:
        out.append(Lost(half.direction, at))
        half.lost = False

    def _problem(self, half: Half, at: int, what: str, out: list[TlsItem | TlsFacts]) -> None:
        self._problems += 1
        if self._problems <= MOST_PROBLEMS:
            self.facts.problems.append(f"{_side(half.direction)}: {what}")
            out.append(TlsProblem(half.direction, at, what))


def _side(direction: Direction) -> str:
    return "client" if direction == Direction.REQUEST else "broker"
