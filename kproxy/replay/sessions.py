"""Sessions of Fetch (KIP-227) and ShareFetch (KIP-932): recorded ids and epochs are replaced by those of the new broker.

To the new broker, a recorded fetch session is in one of two states:

    open       it gave an id: requests go on in it, with epochs of its own
    refused    it gave none (its cache is full), or does not know the session any more: each request names all partitions

Every request is noted, so that the full list of partitions is known for a refused session, and for one of which only some
requests are sent.

A broker that has just learned of a share group acquires nothing at first, so a client asks again; the recorded broker may have
been quicker. Each request of a share session has the next epoch, so after a repeated one all epochs differ from those recorded.
"""

from dataclasses import dataclass, field
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types
from kproxy.replay.recording import Recorded
from kproxy.session import FetchSession

FINAL, FULL = -1, 0  # epochs: no session; a new one, all partitions named
REFUSALS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
MOST_PARTITIONS = 100_000  # of a session, and sessions of a connection

Partitions = dict[tuple[str, int], Any]  # (topic or topic id, partition) -> FetchPartition of FetchRequest
LAST = 0x7FFFFFFF  # after it comes 1 (ShareRequestMetadata.nextEpoch)


@dataclass(slots=True)
class _Session:
    new_id: int = 0  # 0: refused
    epoch: int = 1  # of the next request
    partitions: Partitions = field(default_factory=dict)


class FetchSessions:
    """The sessions of one recorded connection."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}  # by recorded id
        self._beginning: Partitions = {}  # what the latest request for a new session names

    def translate(self, request: Any, full: FetchSession | None) -> bool:
        """Put the new broker's session id and epoch into a Fetch whose other ids are translated; return whether that changed it.

        *full*: the whole session at this request, if requests before it are not sent; else None.
        """
        if request.session_epoch in (FULL, FINAL) and not request.session_id:
            self._beginning = {}
            _note(self._beginning, request)
            return False
        session = self._sessions.get(request.session_id)
        if session is not None:
            _note(session.partitions, request)
        if request.session_epoch == FINAL:  # it ends the session
            self._sessions.pop(request.session_id, None)
            request.session_id = 0 if session is None else session.new_id
            return True
        if session is not None and session.new_id and full is None:
            request.session_id, request.session_epoch = session.new_id, session.epoch
            session.epoch += 1
            return True
        self._ask_in_full(request, session, full)
        return True

    def again(self, request: Any) -> bool:
        """Turn a Fetch that was answered into the next request of its session; return whether that changed it."""
        for session in self._sessions.values():
            if session.new_id and session.new_id == request.session_id and request.session_epoch > FULL:
                request.session_epoch = session.epoch
                session.epoch += 1
                return True
        return False

    def learn(self, request: Any, recorded: Any, new: Any) -> None:
        """Learn the session from both answers to a Fetch. *request*: the recorded one."""
        if request.session_epoch == FULL and recorded.session_id and len(self._sessions) < MOST_PARTITIONS:
            self._sessions[recorded.session_id] = _Session(new.session_id, partitions=self._beginning)
        elif new.error_code in REFUSALS and new.error_code != recorded.error_code:
            session = self._sessions.get(request.session_id)
            if session is not None:
                session.new_id = 0

    def _ask_in_full(self, request: Any, session: _Session | None, full: FetchSession | None) -> None:
        request.session_id, request.session_epoch = 0, FINAL
        request.forgotten_topics_data = []
        named = {(topic, one.partition) for topic, one in _partitions(request)}
        wanted = dict(session.partitions) if session is not None else {}
        for one in full.partitions if full is not None else ():
            made = struct_types("FetchRequest")["FetchPartition"](
                partition=one.partition, fetch_offset=one.fetch_offset, partition_max_bytes=one.partition_max_bytes
            )
            wanted.setdefault((one.topic, one.partition), made)
        for (topic, partition), one in wanted.items():
            if (topic, partition) not in named:
                _add(request, topic, one)


def _topic(entry: Any) -> str:
    return str(entry.topic or entry.topic_id)


def _partitions(request: Any) -> list[tuple[str, Any]]:
    return [(_topic(entry), one) for entry in request.topics for one in entry.partitions]


def _note(partitions: Partitions, request: Any) -> None:
    for entry in request.forgotten_topics_data:
        for partition in entry.partitions:
            partitions.pop((_topic(entry), partition), None)
    for topic, one in _partitions(request):
        if len(partitions) < MOST_PARTITIONS:
            partitions[topic, one.partition] = one


def _add(request: Any, topic: str, partition: Any) -> None:
    entry = next((one for one in request.topics if _topic(one) == topic), None)
    if entry is None:
        by_name = any(one.topic for one in request.topics)
        entry = struct_types("FetchRequest")["FetchTopic"](**{"topic" if by_name else "topic_id": topic})
        request.topics.append(entry)
    entry.partitions.append(partition)


@dataclass(slots=True)
class ShareSessions:
    """The share session of one recorded connection: a member has one with each broker."""

    epoch: int = 1  # of the next request

    def translate(self, body: Any) -> bool:
        """Put the new broker's epoch into a ShareFetch or ShareAcknowledge; return whether that changed it."""
        recorded = body.share_session_epoch
        if recorded in (FULL, FINAL):
            self.epoch = 1
            return False
        body.share_session_epoch = self.epoch
        self.epoch = 1 if self.epoch >= LAST else self.epoch + 1
        return bool(body.share_session_epoch != recorded)

    def ask_again(self, body: Any) -> None:
        """Turn a ShareFetch that was answered into the next one: what it named is in the session now, and acknowledged."""
        body.topics, body.forgotten_topics_data = [], []
        body.share_session_epoch = LAST  # any of a session that goes on
        self.translate(body)


def acquires_later(recorded: Recorded, sent: Any, answer: Any) -> bool:
    """Return whether a ShareFetch got no records and the recorded one got some."""
    if recorded.api_key != ApiKey.SHARE_FETCH or sent.share_session_epoch == FINAL:
        return False
    old = recorded.answer()
    return old is not None and bool(_acquired(old)) and not answer.error_code and not _acquired(answer, errors=True)


def _acquired(answer: Any, *, errors: bool = False) -> int:
    """Count ranges of acquired records; with *errors*, partitions that were refused count as well."""
    partitions = [one for topic in answer.responses for one in topic.partitions]
    return sum(len(one.acquired_records) + (errors and bool(one.error_code)) for one in partitions)
