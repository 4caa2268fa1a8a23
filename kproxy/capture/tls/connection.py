"""TlsConnection: the records of both directions in, application data and what is known of the connection out.

No I/O, no clock. What the handshake says is handshake.py's business; here it is decided what a record is for.
"""

from kproxy.capture.tls.epochs import Budget, Epochs, Opened
from kproxy.capture.tls.half import Half
from kproxy.capture.tls.handshake import Handshake
from kproxy.capture.tls.items import Lost, Plain, TlsItem, TlsProblem
from kproxy.capture.tls.keylog import KeyLog
from kproxy.capture.tls.messages import MessageType
from kproxy.capture.tls.records import ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, Record
from kproxy.capture.tls.suites import alert_name
from kproxy.errors import DecodeError
from kproxy.protocol import Direction
from kproxy.session.tls_facts import TlsFacts

MOST_PROBLEMS = 16
FEW = 16  # records taken to be missing where bytes are that are none
MOST_ALERTS = 8
MOST_EARLY = 1 << 20  # bytes of early data kept until the broker accepts or rejects it
NOT_ERRORS = {0, 90}  # close_notify, user_canceled
FATAL = 2


class TlsConnection:
    """One TLS connection of a capture, from its ClientHello on; never raises for what the bytes say.

    Args:
        keylog: where the secrets are; an empty one when there are none: then only ``facts`` come of it.

    *facts* is filled in as the connection goes on; it is also given once as an item, before the first application data
    or at the end.
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
        self._told = False
        self._problems = 0

    def receive(self, direction: Direction, data: bytes, at: int) -> list[TlsItem | TlsFacts]:
        """Take bytes as they came, in order; *at* in ns since the epoch."""
        out: list[TlsItem | TlsFacts] = []
        half = self._half(direction)
        self._budget.earn(len(data))
        half.buffer.push(data)
        for record, opened in half.records():
            self._take(half, record, opened, at, out)
        if half.buffer.broken:
            half.buffer.broken = False
            half.miss(FEW)
            self._problem(half, at, "bytes that are no TLS record; records are searched for from here on", out)
        return out

    def gap(self, direction: Direction, size: int | None, at: int) -> list[TlsItem | TlsFacts]:
        """Learn that bytes are missing; *size* None when nobody knows how many."""
        out: list[TlsItem | TlsFacts] = []
        half = self._half(direction)
        half.gap(size)
        many = "an unknown number of" if size is None else f"{size:,}"
        self._problem(half, at, f"{many} bytes of TLS records are missing in the capture", out)
        return out

    def close(self, at: int) -> list[TlsItem | TlsFacts]:
        """Learn that nothing more will come."""
        out: list[TlsItem | TlsFacts] = []
        for half in (self._client, self._broker):
            if half.lost and self.facts.decrypted:
                self._tell_lost(half, at, out)
        self._handshake.explain()
        for half in (self._client, self._broker):
            half.epochs = Epochs()  # they know the handshake, which knows the halves: not left to the garbage collector
        self._tell(out)
        return out

    def _half(self, direction: Direction) -> Half:
        return self._client if direction == Direction.REQUEST else self._broker

    # Records

    def _take(self, half: Half, record: Record, opened: Opened | None, at: int, out: list[TlsItem | TlsFacts]) -> None:
        half.traffic.records += 1
        half.traffic.wire_size += record.wire_size
        if opened is not None:
            self._take_opened(half, opened, at, out)
        elif half.is_protected(record):
            self._take_closed(half, record, at)
        elif record.content_type == HANDSHAKE:
            self._take_messages(half, record.body, at, out)
        elif record.content_type == CHANGE_CIPHER_SPEC:
            self._handshake.change_cipher(half)
        elif record.content_type == ALERT:
            self._take_alert(half, record.body)

    def _take_opened(self, half: Half, opened: Opened, at: int, out: list[TlsItem | TlsFacts]) -> None:
        if opened.moved:
            half.messages.clear()
            half.lost = self._is_early_lost(half)  # what else could not be read was the handshake's
        if opened.skipped:
            half.traffic.lost += opened.skipped
            half.messages.clear()
            half.lost = True
        if opened.content_type == APPLICATION_DATA:
            self._deliver(half, opened.data, at, out)
        elif opened.content_type == HANDSHAKE:
            self._take_messages(half, opened.data, at, out)
        elif opened.content_type == ALERT:
            self._take_alert(half, opened.data)
        elif opened.content_type == CHANGE_CIPHER_SPEC:
            self._handshake.change_cipher(half)

    def _take_closed(self, half: Half, record: Record, at: int) -> None:
        half.traffic.not_decrypted += 1
        if record.content_type == APPLICATION_DATA:
            half.lost = True
        elif record.content_type == HANDSHAKE:
            self._handshake.on_closed_message(half, at)

    def _take_messages(self, half: Half, data: bytes, at: int, out: list[TlsItem | TlsFacts]) -> None:
        for kind, body in half.messages.push(data):
            try:
                self._handshake.receive(half, kind, body, at)
            except DecodeError as error:
                self._problem(half, at, f"a handshake message that cannot be read: {error}", out)
            if kind in {MessageType.ENCRYPTED_EXTENSIONS, MessageType.END_OF_EARLY_DATA}:
                self._settle_early(out)

    def _take_alert(self, half: Half, body: bytes) -> None:
        if len(body) != 2 or body[1] in NOT_ERRORS or len(self.facts.alerts) >= MOST_ALERTS:
            return
        severity = "fatal " if body[0] == FATAL else ""
        self.facts.alerts.append(f"{_side(half.direction)}: {severity}{alert_name(body[1])}")

    # Application data

    def _is_early_lost(self, half: Half) -> bool:
        """Whether the broker accepted early data that could not be read."""
        return half is self._client and self.facts.early_data == "accepted" and not self._early_size

    def _deliver(self, half: Half, data: bytes, at: int, out: list[TlsItem | TlsFacts]) -> None:
        half.traffic.plain_size += len(data)
        self.facts.decrypted = True
        plain = Plain(half.direction, at, data)
        if half is self._client and self._handshake.is_early(half):
            self._keep_early(plain, out)
            return
        self._tell(out)
        if half.lost:
            self._tell_lost(half, at, out)
        if data:
            out.append(plain)

    def _keep_early(self, plain: Plain, out: list[TlsItem | TlsFacts]) -> None:
        """Early data counts once the broker accepts it; what it rejects, the client sends again."""
        self._early_size += len(plain.data)
        if self._early_size <= MOST_EARLY:
            self._early.append(plain)
        else:
            self._early.clear()
        self._settle_early(out)

    def _settle_early(self, out: list[TlsItem | TlsFacts]) -> None:
        answer = self.facts.early_data
        if answer == "accepted" and self._early:
            self._tell(out)
            out += self._early
        if answer in {"accepted", "rejected"}:
            self._early.clear()

    # What is said

    def _tell(self, out: list[TlsItem | TlsFacts]) -> None:
        if not self._told:
            self._told = True
            out.append(self.facts)

    def _tell_lost(self, half: Half, at: int, out: list[TlsItem | TlsFacts]) -> None:
        out.append(Lost(half.direction, at))
        half.lost = False

    def _problem(self, half: Half, at: int, what: str, out: list[TlsItem | TlsFacts]) -> None:
        self._problems += 1
        if self._problems <= MOST_PROBLEMS:
            self.facts.problems.append(f"{_side(half.direction)}: {what}")
            out.append(TlsProblem(half.direction, at, what))


def _side(direction: Direction) -> str:
    return "client" if direction == Direction.REQUEST else "broker"
