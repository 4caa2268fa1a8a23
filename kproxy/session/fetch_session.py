"""Follow incremental fetch sessions (KIP-227): complete a Fetch that names only the partitions that changed.

A Fetch request with epoch 0 names all partitions; the response assigns the session its id. Requests with later epochs name
new or changed partitions and partitions to forget. Epoch -1 ends the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kproxy.errors import DecodeError

if TYPE_CHECKING:  # exchanges.pyx imports this module
    from kproxy.session.exchanges import Frame

FETCH_SESSIONS_FROM = 7  # the api_version of Fetch that has sessions (KIP-227)
_FULL_EPOCHS = (0, -1)
_REMEMBERED = 64  # the latest Fetch exchanges, whose full partitions can still be read
_LARGEST = 4 * 1024 * 1024  # larger requests are not decoded: as objects they take many times their size
_SMALLEST = 24  # bytes of a partition in a request


class FetchPartition(Struct):
    """One partition of the session, as the latest request with it says."""

    topic: str  # the name (v7-12) or the topic id in Kafka's text form (v13+)
    partition: int
    fetch_offset: int
    partition_max_bytes: int


BEFORE = "those from before the capture"
CUT = "those in a request that is not here to its end"
FORGOTTEN = "others that were forgotten, as there were too many"


class FetchSession(Struct):
    """All partitions that a Fetch request reads. If some are unknown, *whole* is False and *others* describes them."""

    session_id: int
    epoch: int
    partitions: list[FetchPartition]
    whole: bool = True
    others: str | None = None


_Key = tuple[str, int]


class _Change(Struct):
    """What one Fetch request did to the session. Few are ever looked at, so a request is decoded when its change is applied."""

    number: int
    session_id: int
    epoch: int
    decode: Callable[[], Any] | None  # the request; None: it was cut
    most: int = 0  # partitions in it at most
    partitions: dict[_Key, FetchPartition] | None = None  # None until it is decoded
    forgotten: list[_Key] = []

    def read(self) -> bool:
        """Decode the request, unless that was done; return whether that is possible."""
        if self.partitions is None and self.decode is not None:
            try:
                body = self.decode()
            except DecodeError:
                return False
            finally:
                self.decode = None
            self.partitions, self.forgotten = _named(body), _forgotten(body)
        return self.partitions is not None


class _State(Struct):
    """A session after some number of changes."""

    session_id: int
    partitions: dict[_Key, FetchPartition]
    others: str | None  # unknown further partitions: BEFORE, CUT or FORGOTTEN; None: there are none

    def apply(self, change: _Change, limit: int) -> None:
        if change.epoch in _FULL_EPOCHS:
            self.partitions = {}
            self.others = None
        elif change.session_id != self.session_id:
            self.partitions = {}
            self.others = BEFORE
        if not change.read():  # its missing end may have added or removed any partition
            self.partitions = {}
            self.others = CUT
        self.session_id = change.session_id
        for key in change.forgotten:
            self.partitions.pop(key, None)
        self.partitions.update(change.partitions or {})
        while len(self.partitions) > limit:
            self.partitions.pop(next(iter(self.partitions)))
            self.others = FORGOTTEN


class FetchSessions:
    """The fetch sessions of one connection. A client has one session for each broker, so one is kept at a time.

    It keeps one state and the changes of the latest requests after it. So ``at`` can rebuild the partitions of a recent
    exchange, and no request costs a copy of all partitions.
    """

    __slots__ = ("_base", "_changes", "_count", "_held", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._base = _State(0, {}, BEFORE)
        self._changes: deque[_Change] = deque()
        self._count = 0
        self._held = 0  # partitions in the changes at most

    def note(self, request: Frame, response: Frame | None) -> int:
        """Add the next answered Fetch; return its number, or 0 if it is in no session or cannot be read."""
        change = _read_change(request, response)
        return 0 if change is None else self._add(change)

    def note_body(self, session_id: int, body: Any) -> int:
        """As ``note``, for a decoded request: *body* has the attributes of FetchRequest."""
        named = _named(body)
        change = _Change(0, session_id, body.session_epoch, None, len(named), named, _forgotten(body))
        return self._add(change)

    def _add(self, change: _Change) -> int:
        """Keep a change and return its number; apply the oldest changes to the state once too much is kept."""
        self._count += 1
        change.number = self._count
        self._changes.append(change)
        self._held += change.most
        while len(self._changes) > _REMEMBERED or (self._held > self._limit and len(self._changes) > 1):
            oldest = self._changes.popleft()
            self._held -= oldest.most
            self._base.apply(oldest, self._limit)
        return self._count

    def at(self, number: int) -> FetchSession | None:
        """Return the session after the request with that number; None if it was forgotten."""
        if not self._changes or not self._changes[0].number <= number <= self._count:
            return None
        state = _State(self._base.session_id, dict(self._base.partitions), self._base.others)
        for change in self._changes:
            state.apply(change, self._limit)
            if change.number == number:
                partitions = list(state.partitions.values())
                return FetchSession(change.session_id, change.epoch, partitions, state.others is None, state.others)
        return None


def _read_change(request: Frame, response: Frame | None) -> _Change | None:
    epoch = _peek(request, "sessionEpoch")
    full = epoch in _FULL_EPOCHS
    session_id = _peek(response, "sessionId") if full else _peek(request, "sessionId")
    if epoch is None or not session_id or request.error is not None or len(request.data) > _LARGEST:
        return None
    if request.cut:
        return _Change(0, session_id, epoch, None)
    return _Change(0, session_id, epoch, request.decode, len(request.data) // _SMALLEST)


def _peek(frame: Frame | None, field: str) -> int | None:
    if frame is None or frame.message is None:
        return None
    try:
        return frame.message.peek(frame.body_version, field, frame.data, frame.body_start)
    except DecodeError:
        return None


def _topic(entry: Any) -> str:
    return str(getattr(entry, "topic", "") or entry.topic_id)


def _named(body: Any) -> dict[_Key, FetchPartition]:
    partitions = {}
    for entry in body.topics:
        topic = _topic(entry)
        for requested in entry.partitions:
            number = requested.partition
            partitions[topic, number] = FetchPartition(
                topic, number, requested.fetch_offset, requested.partition_max_bytes
            )
    return partitions


def _forgotten(body: Any) -> list[_Key]:
    return [(_topic(entry), partition) for entry in body.forgotten_topics_data for partition in entry.partitions]
