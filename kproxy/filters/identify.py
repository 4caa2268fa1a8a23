"""Identify: notes who a client is and which software it uses, for filters with ``Filter.identifies``. Chain adds it itself.

    software    ApiVersions from version 3 on (KIP-511)
    principal   the name in the token of PLAIN or SCRAM, the claim "sub" of OAUTHBEARER, once the broker has accepted it: after
                SaslAuthenticate without an error, or when requests follow raw tokens. Tokens of GSSAPI and others cannot be read

Nothing else of a token is kept. Only these requests at the beginning of a connection are held. What a request says is noted when
its response comes: a client may send more requests before that, and must not yet count as who it claims to be.
"""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kproxy.errors import DecodeError
from kproxy.filters.contract import TOPIC_NAMES, ConnectionFacts, Filter, Forward, Request, Response, SharedSet, Verdict
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID

IDS_FROM = 10  # version of Metadata
MOST_TOPICS = 200_000
LONGEST_SHARED = 249  # characters of a name that workers share: Kafka has none that is longer
LONGEST = 1_024  # characters of a name
STATE = "identify"
TWO_NAMES = ""


class TopicNames:
    """Topic names by id. Beyond MOST_TOPICS, those not used or learned for the longest time are forgotten.

    A client that uses a forgotten topic gets UNKNOWN_TOPIC_ID from filters that need its name. It then asks for Metadata,
    from which the name is learned again. An id that was given two names has none any more: Kafka renames no topic, so a broker
    that does would have records of the one treated as those of the other.

    Args:
        shared: what all workers know, as texts "id name"; None: this object knows only what it learns itself.
    """

    def __init__(self, shared: SharedSet | None = None) -> None:
        self._names: dict[str, str] = {}
        self._shared = shared
        self._read = 0  # number of the last change of *shared* that was read

    def get(self, topic_id: str, otherwise: str | None = None) -> str | None:
        """Return the name of a topic if any worker has seen it in a Metadata response."""
        if self._shared is not None:
            self._read, added = self._shared.added_since(self._read)
            for value in added:
                known, _, name = value.partition(" ")
                self._put(known, name)
        if topic_id not in self._names:
            return otherwise
        name = self._names.pop(topic_id)
        self._names[topic_id] = name  # as the one used last
        return name or otherwise

    def __setitem__(self, topic_id: str, name: str) -> None:
        is_new = self._names.get(topic_id) != name
        self._put(topic_id, name)
        if is_new and self._shared is not None and len(name) <= LONGEST_SHARED:
            self._shared.add(f"{topic_id} {name}")

    def _put(self, topic_id: str, name: str) -> None:
        before = self._names.pop(topic_id, name)
        self._names[topic_id] = name if before == name else TWO_NAMES
        if len(self._names) > MOST_TOPICS:
            del self._names[next(iter(self._names))]


class Login:
    """What a client says while it logs in. The broker has accepted none of it yet."""

    def __init__(self) -> None:
        self.asked = ""  # the mechanism of the last SaslHandshake request: that of raw tokens, which follow it
        self.mechanism = ""  # that of the last one that the broker has accepted
        self.name: str | None = None
        self.unanswered = 0  # requests that log in and have no response yet
        self.is_raw = False  # it uses raw tokens, and has sent one


class Identify(Filter):
    """Note the SASL principal and the software of each client in its ConnectionFacts, and the names of topics by their ids.

    Args:
        clients: note principal and software.
        topics: note names of topics.
    """

    name = "identify"
    fails_open = True

    def __init__(self, clients: bool, topics: bool) -> None:
        of_clients = (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)
        self.requests = of_clients if clients else ()
        logins = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE) if clients else ()
        self.responses = (*logins, ApiKey.METADATA) if topics else logins
        self._names_topics = topics
        self._topics = TopicNames()

    def on_start(self) -> None:
        """Continue with the topics that are known, and with those that other workers learn."""
        if self._names_topics:
            known = self.runtime.kept.setdefault(
                TOPIC_NAMES, TopicNames(self.runtime.shared_set(f"{self.name}.topics"))
            )
            self._topics = known

    def on_request(self, request: Request) -> Verdict:
        """Note what the request says."""
        message: Any = request.message
        connection = request.connection
        if request.api_key == ApiKey.API_VERSIONS:
            if request.api_version >= 3 and message.client_software_name:
                connection.software = message.client_software_name[:LONGEST], message.client_software_version[:LONGEST]
        elif request.api_key == ApiKey.SASL_HANDSHAKE:
            login_of(connection).asked = message.mechanism[:LONGEST]
        else:
            login_of(connection).unanswered += 1
        return Forward()

    def on_response(self, response: Response) -> Verdict:
        """Accept the name that the client gave, or forget it."""
        message: Any = response.message
        if response.request.api_key == ApiKey.METADATA:
            self._learn(message, response.request.api_version)
            return Forward()
        login = login_of(response.connection)
        request: Any = response.request.message  # None: it could not be read
        if response.request.api_key == ApiKey.SASL_HANDSHAKE:
            if not message.error_code:
                login.mechanism = request.mechanism[:LONGEST] if request is not None else ""
            return Forward()
        login.unanswered -= 1
        if message.error_code or request is None:
            login.name = None
            return Forward()
        _note_name(login, login.mechanism, request.auth_bytes)
        if _is_complete(login.mechanism, message.auth_bytes):
            _accept(response.connection, login.mechanism)
        return Forward()

    def _learn(self, message: Any, api_version: int) -> None:
        """Note the ids of topics, in versions that have them."""
        for topic in message.topics if api_version >= IDS_FROM else ():
            if topic.name and topic.topic_id != ZERO_UUID:
                self._topics[topic.topic_id] = topic.name


def identifying(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Return the Identify that these filters need, alone in a tuple; an empty tuple if they need none."""
    listed = tuple(filters)
    clients = any(each.identifies for each in listed)
    topics = any(each.names_topics or each.learns_topics for each in listed)
    return (Identify(clients, topics),) if clients or topics else ()


def login_of(connection: ConnectionFacts) -> Login:
    login: Login = connection.state.setdefault(STATE, Login())
    return login


def is_logging_in(connection: ConnectionFacts) -> bool:
    """Return whether a login has no answer yet, so that the principal of requests sent behind it is not known."""
    login: Login | None = connection.state.get(STATE)
    return login is not None and login.unanswered > 0


def note_token(connection: ConnectionFacts, token: bytes) -> bool:
    """Note the name in a raw token, if it has one; return whether the login begins with it."""
    login = login_of(connection)
    _note_name(login, login.asked, token)
    begins, login.is_raw = not login.is_raw, True
    return begins


def accept(connection: ConnectionFacts) -> None:
    """Note that the broker has accepted the client's raw tokens."""
    login = login_of(connection)
    login.is_raw = False
    _accept(connection, login.asked)


def _note_name(login: Login, mechanism: str, token: bytes) -> None:
    name = _name_in(mechanism, token)
    if name is not None:
        login.name = name[:LONGEST]


def _accept(connection: ConnectionFacts, mechanism: str) -> None:
    connection.mechanism = mechanism or "GSSAPI"
    connection.principal = login_of(connection).name


def _is_complete(mechanism: str, answer: bytes) -> bool:
    """Return whether an answer of the broker ends the login.

    With SCRAM there is a challenge before, with OAUTHBEARER a refusal that is no error yet.
    """
    if mechanism.startswith("SCRAM-"):
        return answer.startswith(b"v=")
    return not answer


def _name_in(mechanism: str, token: bytes) -> str | None:
    if mechanism == "OAUTHBEARER":
        return _subject(token)
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415 - most workers see no token: 4 MB of code less

    with suppress(DecodeError):
        opened = open_token(token, mechanism, from_client=True)
        if "username" in opened:
            delegated = "tokenauth" in (opened.get("extensions") or {})
            return f"delegation token {opened['username']}" if delegated else opened["username"]
    return None


def _subject(token: bytes) -> str | None:
    """Return the claim "sub" of the JSON web token in an OAUTHBEARER token (RFC 7628); nothing else of it is kept."""
    for pair in token.split(b"\x01"):
        name, _, value = pair.partition(b"=")
        scheme, _, bearer = value.partition(b" ")
        if name.lower() == b"auth" and scheme.lower() == b"bearer" and bearer.count(b".") == 2:
            with suppress(ValueError, binascii.Error, RecursionError):
                claims = json.loads(urlsafe_b64decode(bearer.split(b".")[1] + b"=="))
                subject = claims.get("sub") if isinstance(claims, dict) else None
                return subject if isinstance(subject, str) else None
    return None
