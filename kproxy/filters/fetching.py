"""What filters need of Fetch: sessions opened under the rules in use, and responses that can be held.

A request in a fetch session names only what has changed since the last one (KIP-227, KIP-932). So a request in a session that
was opened before the present rules, or past the proxy, may ask for topics that were never seen here. Such a session is refused
as unknown, and its client opens another with a request that names everything (OpenedSessions). What a request fetches is the
content of its session, with what the request adds and removes (FetchedTopics).

Consumers ask for up to 50 MiB by default (fetch.max.bytes). If a filter needs complete responses, LimitFetches lets requests ask
for no more than can be held: a response above limits.held_frame_size would be refused, each time it is asked for again. A broker
may send fewer bytes than asked for at any time, and consumers go on from there; only a first batch that is larger is sent
nevertheless (KIP-74). That is refused with an error: see ``Chain.when_too_large_to_hold``.

Before version 3 a request has no limit of its own, and its partitions share what can be held. A message that is larger than its
share is then cut, and the consumer reports that; with the defaults, and 9 partitions in a request, that is a message above
932,067 bytes.
"""

from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Any

from kproxy.filters.contract import (
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Replace,
    Request,
    Response,
    Verdict,
    Want,
)
from kproxy.filters.error_responses import error_response
from kproxy.filters.named_resources import Topic
from kproxy.protocol import ApiKey, MessageStruct
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts

SESSIONS_FROM = 7  # version of Fetch
NO_SESSION = -1  # epoch of a request that opens none, and names all
MOST_PARTITIONS = 50_000  # of the sessions of a connection that are remembered
MOST = 100  # sessions of a connection; a client has one with a broker
Session = tuple[object, ...]
Partitions = dict[Topic, set[int]]


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
        self._opened.pop(connection.number, None)

    def _knows(self, connection: ConnectionFacts, session: Session) -> bool:
        return session in self._opened.get(connection.number, ())

    def _note(self, connection: ConnectionFacts, session: Session) -> None:
        opened = self._opened.setdefault(connection.number, {})
        opened[session] = None
        if len(opened) > MOST:
            del opened[next(iter(opened))]


class FetchedTopics:
    """What the Fetch and ShareFetch requests of one connection fetch.

    A client has one session with a broker over a connection. Partitions beyond MOST_PARTITIONS are not remembered: their topics
    count only in requests that name them.
    """

    def __init__(self) -> None:
        self._sessions: dict[Session, Partitions] = {}
        self._size = 0

    def note(self, request: Request) -> Partitions:
        """Note what a request adds to its session and removes from it; return all that it fetches."""
        message: Any = request.message
        is_share = request.api_key == ApiKey.SHARE_FETCH
        epoch = (
            message.share_session_epoch if is_share else message.session_epoch if _has_sessions(request) else NO_SESSION
        )
        key = _share_session(message) if is_share else ()
        if epoch <= 0:
            self._forget(self._sessions.pop(key, {}))
        number_of = attrgetter("partition_index" if is_share else "partition")
        named = {_topic(each): set(map(number_of, each.partitions)) for each in message.topics or ()}
        if epoch == NO_SESSION:
            return named
        topics = self._sessions.setdefault(key, {})
        if len(self._sessions) > MOST:
            self._forget(self._sessions.pop(next(iter(self._sessions))))
        for each in message.forgotten_topics_data or () if epoch > 0 else ():
            self._take_away(topics, _topic(each), each.partitions)
        for topic, partitions in named.items():
            self._add(topics, topic, partitions)
        return {**named, **topics}

    def _add(self, topics: Partitions, topic: Topic, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if self._size < MOST_PARTITIONS and partition not in topics.get(topic, ()):
                topics.setdefault(topic, set()).add(partition)
                self._size += 1

    def _take_away(self, topics: Partitions, topic: Topic, partitions: Iterable[int]) -> None:
        known = topics.get(topic, set())
        gone = known.intersection(partitions)
        known -= gone
        self._size -= len(gone)
        if not known:
            topics.pop(topic, None)

    def _forget(self, topics: Partitions) -> None:
        self._size -= sum(map(len, topics.values()))


def _has_sessions(request: Request) -> bool:
    return request.api_version >= SESSIONS_FROM


def _topic(element: Any) -> Topic:
    name = getattr(element, "topic", None) or ""
    return name, "" if name else element.topic_id


def _share_session(request: Any) -> Session:
    return request.group_id, request.member_id


MAX_BYTES_SINCE = 3  # version of Fetch
PARTS_OF_HELD = 2  # one for records, the other for everything else in a response
FETCHES = (ApiKey.FETCH, ApiKey.SHARE_FETCH)


class LimitFetches(Filter):
    """Limit what Fetch and ShareFetch requests ask for, if a filter needs the complete response.

    Args:
        versions: (API key, version) of the requests.
        held_frame_size: the largest frame that is held.
    """

    name = "limit_fetches"
    keeps_requests = True  # the error in place of a response that is too large is for the topics of the request

    def __init__(self, versions: Collection[tuple[int, int]], held_frame_size: int) -> None:
        self._versions = frozenset(versions)
        self._most_bytes = max(1, held_frame_size // PARTS_OF_HELD)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HOLD requests whose responses have to be held completely."""
        is_one = direction == Direction.REQUEST and (api_key, api_version) in self._versions
        return Want.HOLD if is_one else Want.PASS

    def on_request(self, request: Request) -> Verdict:
        """Limit a request that asks for more."""
        if request.api_key == ApiKey.SHARE_FETCH:
            changed = limit_share(request.message, self._most_bytes)
        else:
            changed = limit(request.message, request.api_version, self._most_bytes)
        return Replace(request.message) if changed else Forward()


def limiting(filters: Iterable[Filter], held_frame_size: int) -> tuple[Filter, ...]:
    """Return the LimitFetches that these filters need, alone in a tuple; an empty tuple if they need none.

    Filters that fail open do without responses that are too large.
    """
    listed = tuple(filters)
    every = [(key, version) for key in FETCHES for version in facts().apis[key].versions]
    needed = [each for each in every if any(_needs_whole(filter_, *each) for filter_ in listed)]
    return (LimitFetches(needed, held_frame_size),) if needed else ()


def _needs_whole(filter_: Filter, api_key: int, api_version: int) -> bool:
    if filter_.fails_open or filter_.wants(Direction.RESPONSE, api_key, api_version) is not Want.HOLD:
        return False
    return filter_.wants_of_large(Direction.RESPONSE, api_key, api_version) in (None, Want.HOLD)


def limit_share(message: Any, most_bytes: int) -> bool:
    """Limit the size of a ShareFetch response; return whether that changed the request."""
    if message.max_bytes <= most_bytes:
        return False
    message.max_bytes = most_bytes
    return True


def limit(message: Any, version: int, most_bytes: int) -> bool:
    """Limit the size of a Fetch response; return whether that changed the request."""
    if version >= MAX_BYTES_SINCE:
        if message.max_bytes <= most_bytes:
            return False
        message.max_bytes = most_bytes
        return True
    partitions = [partition for topic in message.topics for partition in topic.partitions]
    if sum(max(0, partition.partition_max_bytes) for partition in partitions) <= most_bytes:
        return False
    share = max(1, most_bytes // len(partitions))
    large = [partition for partition in partitions if partition.partition_max_bytes > share]
    for partition in large:
        partition.partition_max_bytes = share
    return bool(large)
