"""Fetch sessions: a request in a session names only what has changed since the last one (KIP-227, KIP-932).

So a request in a session that was opened before the present rules, or past the proxy, may ask for topics that were never seen
here. Such a session is refused as unknown, and its client opens another with a request that names everything (OpenedSessions).
What a request asks for is the content of its session, with what the request adds and removes (AskedTopics).
"""

from collections.abc import Collection, Iterable
from typing import Any

from kproxy.filters.contract import ConnectionFacts, Request, Response
from kproxy.filters.error_responses import error_response
from kproxy.protocol import ApiKey, MessageStruct
from kproxy.protocol.error_codes import ErrorCode

SESSIONS_FROM = 7  # version of Fetch
NO_SESSION = -1  # epoch of a request that opens none, and names all
MOST_PARTITIONS = 50_000  # of the sessions of a connection that are remembered
MOST = 100  # sessions of a connection; a client has one with a broker
Session = tuple[object, ...]


class OpenedSessions:
    """The sessions that each connection has opened, for some APIs."""

    def __init__(self, apis: Collection[int]) -> None:
        self._apis = frozenset(apis)
        self._opened: dict[int, dict[Session, None]] = {}  # by number of the connection

    def refusal(self, request: Request) -> MessageStruct | None:
        """Return the response to a request in a session that is not known; None for all other requests."""
        if request.api_key not in self._apis:
            return None
        message: Any = request.message
        if request.api_key == ApiKey.SHARE_FETCH:
            known = message.share_session_epoch <= 0 or self._knows(request.connection, _share_session(message))
            return None if known else error_response(request, ErrorCode.SHARE_SESSION_NOT_FOUND)
        if request.api_version < SESSIONS_FROM or message.session_epoch <= 0:
            return None
        if self._knows(request.connection, (message.session_id,)):
            return None
        return error_response(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def note(self, response: Response) -> None:
        """Note the session that a broker has opened."""
        request: Any = response.request.message
        message: Any = response.message
        if response.request.api_key not in self._apis or request is None:
            return
        if response.request.api_key == ApiKey.SHARE_FETCH:
            if request.share_session_epoch == 0 and not message.error_code:  # a new session, with only these topics
                self._note(response.connection, _share_session(request))
            return
        is_new = response.request.api_version >= SESSIONS_FROM and request.session_epoch == 0
        if is_new and message.session_id not in (0, request.session_id):  # a broker gives each session an id of its own
            self._note(response.connection, (message.session_id,))

    def forget(self, connection: ConnectionFacts) -> None:
        """Forget the sessions of a connection."""
        self._opened.pop(connection.number, None)

    def _knows(self, connection: ConnectionFacts, session: Session) -> bool:
        return session in self._opened.get(connection.number, ())

    def _note(self, connection: ConnectionFacts, session: Session) -> None:
        opened = self._opened.setdefault(connection.number, {})
        opened[session] = None
        if len(opened) > MOST:
            del opened[next(iter(opened))]


class AskedTopics:
    """The topics that the Fetch and ShareFetch requests of one connection ask for, by name or by id.

    A client has one session with a broker over a connection. Partitions beyond MOST_PARTITIONS are not remembered: they count
    only in requests that name them.
    """

    def __init__(self) -> None:
        self._sessions: dict[Session, dict[str, set[int]]] = {}  # partitions by topic
        self._size = 0

    def note(self, request: Request) -> list[str]:
        """Note what a request adds to its session and removes from it; return all topics that it asks for."""
        message: Any = request.message
        is_share = request.api_key == ApiKey.SHARE_FETCH
        epoch = (
            message.share_session_epoch if is_share else message.session_epoch if _has_sessions(request) else NO_SESSION
        )
        key = _share_session(message) if is_share else ()
        if epoch <= 0:
            self._forget(self._sessions.pop(key, {}))
        named = {_topic(each) for each in message.topics or ()}
        if epoch == NO_SESSION:
            return list(named)
        topics = self._sessions.setdefault(key, {})
        if len(self._sessions) > MOST:
            self._forget(self._sessions.pop(next(iter(self._sessions))))
        for each in message.forgotten_topics_data or () if epoch > 0 else ():
            self._take_away(topics, _topic(each), each.partitions)
        for each in message.topics or ():
            numbers = (part.partition_index if is_share else part.partition for part in each.partitions)
            self._add(topics, _topic(each), numbers)
        return list(named | topics.keys())

    def _add(self, topics: dict[str, set[int]], topic: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if self._size < MOST_PARTITIONS and partition not in topics.get(topic, ()):
                topics.setdefault(topic, set()).add(partition)
                self._size += 1

    def _take_away(self, topics: dict[str, set[int]], topic: str, partitions: Iterable[int]) -> None:
        known = topics.get(topic, set())
        gone = known.intersection(partitions)
        known -= gone
        self._size -= len(gone)
        if not known:
            topics.pop(topic, None)

    def _forget(self, topics: dict[str, set[int]]) -> None:
        self._size -= sum(map(len, topics.values()))


def _has_sessions(request: Request) -> bool:
    return request.api_version >= SESSIONS_FROM


def _topic(element: Any) -> str:
    """Return the name of a topic, or its id."""
    return str(getattr(element, "topic", None) or element.topic_id)


def _share_session(request: Any) -> Session:
    return request.group_id, request.member_id
