"""Fetch sessions that were opened under the rules in use: a request in one names only what is new (KIP-227, KIP-932).

So a request in a session that was opened before, or past the proxy, may ask for topics that nothing here has seen. A client whose
session is not known opens another, with a request that names all.
"""

from collections.abc import Collection
from typing import Any

from kproxy.filters.contract import ConnectionFacts, Request, Response
from kproxy.filters.error_responses import error_response
from kproxy.protocol import ApiKey, MessageStruct
from kproxy.protocol.error_codes import ErrorCode

SESSIONS_FROM = 7  # version of Fetch
MOST = 100  # sessions of a connection; a client has one with a broker
Session = tuple[object, ...]


class OpenedSessions:
    """The sessions that each connection has opened, of the APIs given."""

    def __init__(self, apis: Collection[int]) -> None:
        self._apis = frozenset(apis)
        self._opened: dict[int, dict[Session, None]] = {}  # by number of the connection

    def refusal(self, request: Request) -> MessageStruct | None:
        """The response to a request in a session that is not known; None for all other requests."""
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
        asked: Any = response.request.message
        message: Any = response.message
        if response.request.api_key not in self._apis or asked is None:
            return
        if response.request.api_key == ApiKey.SHARE_FETCH:
            if asked.share_session_epoch == 0 and not message.error_code:  # it began anew, with these topics alone
                self._note(response.connection, _share_session(asked))
            return
        is_new = response.request.api_version >= SESSIONS_FROM and asked.session_epoch == 0
        if is_new and message.session_id not in (0, asked.session_id):  # a broker gives each session an id of its own
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


def _share_session(asked: Any) -> Session:
    return asked.group_id, asked.member_id
